; padding.bound.floor_is_unique
; Of two numbers that satisfy the definition of floor(n/A) neither is larger, so they are equal.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tile Int)
(declare-const tiles Int)
(declare-const count Int)
(declare-const count_tiles Int)
(assert (<= 1 tile))
(assert (and (<= (* tiles tile) count) (< count (* (+ tiles 1) tile))))
(assert (and (<= (* count_tiles tile) count) (< count (* (+ count_tiles 1) tile))))
(assert (not (<= tiles count_tiles)))
(check-sat)

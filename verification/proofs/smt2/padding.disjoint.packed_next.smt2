; padding.disjoint.packed_next
; packed: the next expert starts at the end of this one, by definition, and not before its start.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tile Int)
(declare-const count Int)
(declare-const count_tiles Int)
(declare-const slot Int)
(assert (<= 1 tile))
(assert (<= 0 count))
(assert (and (< (* (- count_tiles 1) tile) count) (<= count (* count_tiles tile))))
(assert (not (and (<= (+ (* tile slot) (* tile count_tiles)) (* tile (+ slot count_tiles))) (<= 0 count_tiles))))
(check-sat)

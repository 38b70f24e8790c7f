; index.no_wrap.routing.last_offset
; include/nvfp4_moe/routing.h: no part of `offset + count` leaves its type, up to the value
;   2,147,417,984.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const offset Int)
(declare-const count Int)
(assert (<= 0 offset))
(assert (<= offset 2147417984))
(assert (<= 0 count))
(assert (<= count (- 2147417984 offset)))
(assert (not (and (<= (- 2147483648) (+ offset count)) (<= (+ offset count) 2147483647) (<= 0 (+ offset count)))))
(check-sat)

; index.no_wrap.routing.warp_counts_summed
; csrc/routing_kernel.cuh: no part of `(first + i) * experts + e` leaves its type, up to the value
;   1,507,327.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const experts Int)
(declare-const first Int)
(declare-const i Int)
(declare-const e Int)
(assert (<= 1 experts))
(assert (<= experts 65536))
(assert (<= 0 first))
(assert (<= first 15))
(assert (<= 0 i))
(assert (<= i 7))
(assert (<= 0 e))
(assert (<= e (- experts 1)))
(assert (not (and (<= (- 2147483648) (+ first i)) (<= (+ first i) 2147483647) (<= (- 2147483648) (* (+ first i) experts)) (<= (* (+ first i) experts) 2147483647) (<= (- 2147483648) (+ (* (+ first i) experts) e)) (<= (+ (* (+ first i) experts) e) 2147483647) (<= 0 (+ (* (+ first i) experts) e)))))
(check-sat)

; index.no_wrap.routing.fetched_step
; csrc/routing_kernel.cuh: no part of `slot + 4 * kWarp` leaves its type, up to the value
;   2,147,418,111.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const slot Int)
(assert (<= 0 slot))
(assert (<= slot 2147417983))
(assert (not (and (<= (- 2147483648) (+ slot 128)) (<= (+ slot 128) 2147483647) (<= 0 (+ slot 128)))))
(check-sat)

; index.no_wrap.routing.fetched_slot
; csrc/routing_kernel.cuh: no part of `slot + i * kWarp` leaves its type, up to the value
;   2,147,418,079.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const slot Int)
(declare-const i Int)
(assert (<= 0 slot))
(assert (<= slot 2147417983))
(assert (<= 0 i))
(assert (<= i 3))
(assert (not (and (<= (- 2147483648) (* i 32)) (<= (* i 32) 2147483647) (<= (- 2147483648) (+ slot (* i 32))) (<= (+ slot (* i 32)) 2147483647) (<= 0 (+ slot (* i 32))))))
(check-sat)

; index.no_wrap.routing.outside_step
; csrc/routing_kernel.cuh: no part of `slot + kAtOnce * stride` leaves its type, up to the value
;   2,147,483,519.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const slot Int)
(declare-const stride Int)
(assert (<= 0 slot))
(assert (<= slot 2147417983))
(assert (<= 32 stride))
(assert (<= stride 8192))
(assert (not (and (<= (- 2147483648) (* 8 stride)) (<= (* 8 stride) 2147483647) (<= (- 2147483648) (+ slot (* 8 stride))) (<= (+ slot (* 8 stride)) 2147483647) (<= 0 (+ slot (* 8 stride))))))
(check-sat)

; index.no_wrap.routing.warp_counts
; csrc/routing_kernel.cuh: no part of `warp * call.experts` leaves its type, up to the value
;   983,040.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_experts Int)
(declare-const warp Int)
(assert (<= 1 call_experts))
(assert (<= call_experts 65536))
(assert (<= 0 warp))
(assert (<= warp 15))
(assert (not (and (<= (- 2147483648) (* warp call_experts)) (<= (* warp call_experts) 2147483647) (<= 0 (* warp call_experts)))))
(check-sat)

; index.no_wrap.launch.shared_vectors_bytes
; csrc/quantize_launch.cuh: no part of `4 * (3 * int64_t{call.experts} + 2)` leaves its type, up to
;   the value 25,769,803,772.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_experts Int)
(assert (<= (- 2147483648) call_experts))
(assert (<= call_experts 2147483647))
(assert (not (and (<= (- 9223372036854775808) call_experts) (<= call_experts 9223372036854775807) (<= (- 9223372036854775808) (* 3 call_experts)) (<= (* 3 call_experts) 9223372036854775807) (<= (- 9223372036854775808) (+ (* 3 call_experts) 2)) (<= (+ (* 3 call_experts) 2) 9223372036854775807) (<= (- 9223372036854775808) (* 4 (+ (* 3 call_experts) 2))) (<= (* 4 (+ (* 3 call_experts) 2)) 9223372036854775807))))
(check-sat)

; index.no_wrap.quantize.ring_shared_offsets
; csrc/quantize_kernel.cuh: no part of `call.experts + 1 + i` leaves its type, up to the value
;   4,097.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_experts Int)
(declare-const i Int)
(assert (<= 1 call_experts))
(assert (<= call_experts 2048))
(assert (<= 0 i))
(assert (<= i call_experts))
(assert (not (and (<= (- 2147483648) (+ call_experts 1)) (<= (+ call_experts 1) 2147483647) (<= (- 2147483648) (+ (+ call_experts 1) i)) (<= (+ (+ call_experts 1) i) 2147483647) (<= 0 (+ (+ call_experts 1) i)))))
(check-sat)

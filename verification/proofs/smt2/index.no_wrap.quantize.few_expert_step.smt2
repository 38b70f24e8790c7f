; index.no_wrap.quantize.few_expert_step
; csrc/few_rows_kernel.cuh: no part of `e + static_cast<int32_t>(blockDim.x)` leaves its type, up to
;   the value 2,147,418,622.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_experts Int)
(declare-const e Int)
(declare-const blockDim_x Int)
(assert (<= 1 call_experts))
(assert (<= call_experts 2147418111))
(assert (<= 0 e))
(assert (<= e (- call_experts 1)))
(assert (<= 32 blockDim_x))
(assert (<= blockDim_x 512))
(assert (not (and (<= (- 2147483648) blockDim_x) (<= blockDim_x 2147483647) (<= (- 2147483648) (+ e blockDim_x)) (<= (+ e blockDim_x) 2147483647) (<= 0 (+ e blockDim_x)))))
(check-sat)

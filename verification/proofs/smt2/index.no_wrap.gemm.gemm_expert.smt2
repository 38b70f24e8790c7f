; index.no_wrap.gemm.gemm_expert
; csrc/gemm_prepare.cuh: no part of `begin + static_cast<int32_t>(threadIdx.x)` leaves its type, up
;   to the value 2,147,418,365.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_experts Int)
(declare-const begin Int)
(declare-const threadIdx_x Int)
(assert (<= 1 call_experts))
(assert (<= call_experts 2147418111))
(assert (<= 0 begin))
(assert (<= begin (- call_experts 1)))
(assert (<= 0 threadIdx_x))
(assert (<= threadIdx_x 255))
(assert (not (and (<= (- 2147483648) threadIdx_x) (<= threadIdx_x 2147483647) (<= (- 2147483648) (+ begin threadIdx_x)) (<= (+ begin threadIdx_x) 2147483647) (<= 0 (+ begin threadIdx_x)))))
(check-sat)

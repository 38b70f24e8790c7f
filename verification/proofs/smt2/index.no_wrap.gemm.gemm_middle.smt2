; index.no_wrap.gemm.gemm_middle
; include/nvfp4_moe/gemm.h: no part of `first + (last - first) / 2` leaves its type, up to the value
;   2,147,418,111.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_experts Int)
(declare-const last Int)
(declare-const first Int)
(assert (<= 1 call_experts))
(assert (<= call_experts 2147418111))
(assert (<= 0 last))
(assert (<= last call_experts))
(assert (<= 0 first))
(assert (<= first last))
(assert (not (and (<= (- 2147483648) (- last first)) (<= (- last first) 2147483647) (<= (- 2147483648) (div (- last first) 2)) (<= (div (- last first) 2) 2147483647) (<= 0 (- last first)) (< 0 2) (<= (- 2147483648) (+ first (div (- last first) 2))) (<= (+ first (div (- last first) 2)) 2147483647) (<= 0 (+ first (div (- last first) 2))))))
(check-sat)

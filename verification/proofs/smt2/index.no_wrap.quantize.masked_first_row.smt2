; index.no_wrap.quantize.masked_first_row
; include/nvfp4_moe/quantize.h: no part of `static_cast<int32_t>(expert * call.rows_per_expert)`
;   leaves its type, up to the value 0.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_experts Int)
(declare-const call_rows_per_expert Int)
(declare-const expert Int)
(assert (<= 1 call_experts))
(assert (<= call_experts 2147483646))
(assert (<= 0 call_rows_per_expert))
(assert (<= call_rows_per_expert 2147483647))
(assert (<= 0 expert))
(assert (<= expert (- call_experts 1)))
(assert (<= (* call_experts call_rows_per_expert) 2147418111))
(assert (not (and (<= (- 9223372036854775808) expert) (<= expert 9223372036854775807) (<= (- 9223372036854775808) (* expert call_rows_per_expert)) (<= (* expert call_rows_per_expert) 9223372036854775807) (<= (- 2147483648) (* expert call_rows_per_expert)) (<= (* expert call_rows_per_expert) 2147483647) (<= 0 (* expert call_rows_per_expert)))))
(check-sat)

; index.no_wrap.quantize.masked_next_row
; include/nvfp4_moe/quantize.h: no part of `static_cast<int32_t>(first + call.rows_per_expert)`
;   leaves its type, up to the value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const first Int)
(declare-const call_rows_per_expert Int)
(assert (<= 0 first))
(assert (<= first 2147418111))
(assert (<= 0 call_rows_per_expert))
(assert (<= call_rows_per_expert (- 2147418111 first)))
(assert (not (and (<= (- 9223372036854775808) first) (<= first 9223372036854775807) (<= (- 9223372036854775808) (+ first call_rows_per_expert)) (<= (+ first call_rows_per_expert) 9223372036854775807) (<= (- 2147483648) (+ first call_rows_per_expert)) (<= (+ first call_rows_per_expert) 2147483647) (<= 0 (+ first call_rows_per_expert)))))
(check-sat)

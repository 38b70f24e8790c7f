; index.no_wrap.quantize.masked_scale_row
; include/nvfp4_moe/quantize.h: no part of `expert * round_up(call.rows_per_expert, kTileRows)`
;   leaves its type, up to the value 274,869,518,080.
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
(assert (not (and (<= (- 9223372036854775808) expert) (<= expert 9223372036854775807) (<= (- 9223372036854775808) (+ call_rows_per_expert 128)) (<= (+ call_rows_per_expert 128) 9223372036854775807) (<= (- 9223372036854775808) (- (+ call_rows_per_expert 128) 1)) (<= (- (+ call_rows_per_expert 128) 1) 9223372036854775807) (<= (- 9223372036854775808) (div (- (+ call_rows_per_expert 128) 1) 128)) (<= (div (- (+ call_rows_per_expert 128) 1) 128) 9223372036854775807) (<= 0 (- (+ call_rows_per_expert 128) 1)) (< 0 128) (<= (- 9223372036854775808) (* (div (- (+ call_rows_per_expert 128) 1) 128) 128)) (<= (* (div (- (+ call_rows_per_expert 128) 1) 128) 128) 9223372036854775807) (<= (- 9223372036854775808) (* expert (* (div (- (+ call_rows_per_expert 128) 1) 128) 128))) (<= (* expert (* (div (- (+ call_rows_per_expert 128) 1) 128) 128)) 9223372036854775807) (<= 0 (* expert (* (div (- (+ call_rows_per_expert 128) 1) 128) 128))))))
(check-sat)

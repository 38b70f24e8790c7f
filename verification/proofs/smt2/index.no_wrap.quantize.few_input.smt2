; index.no_wrap.quantize.few_input
; csrc/few_rows_kernel.cuh: no part of `source * int64_t{call.input_stride} + block * kBlockSize`
;   leaves its type, up to the value 4,611,686,014,132,428,785.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const source Int)
(declare-const call_input_stride Int)
(declare-const block Int)
(assert (<= 0 source))
(assert (<= source 2147483647))
(assert (<= 0 call_input_stride))
(assert (<= call_input_stride 2147483647))
(assert (<= 0 block))
(assert (<= block 511))
(assert (not (and (<= (- 9223372036854775808) call_input_stride) (<= call_input_stride 9223372036854775807) (<= (- 9223372036854775808) (* source call_input_stride)) (<= (* source call_input_stride) 9223372036854775807) (<= (- 2147483648) (* block 16)) (<= (* block 16) 2147483647) (<= (- 9223372036854775808) (* block 16)) (<= (* block 16) 9223372036854775807) (<= (- 9223372036854775808) (+ (* source call_input_stride) (* block 16))) (<= (+ (* source call_input_stride) (* block 16)) 9223372036854775807) (<= 0 (+ (* source call_input_stride) (* block 16))))))
(check-sat)

; index.no_wrap.quantize.input_row
; include/nvfp4_moe/quantize.h: no part of `source * int64_t{call.input_stride}` leaves its type, up
;   to the value 4,611,686,014,132,420,609.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const source Int)
(declare-const call_input_stride Int)
(assert (<= 0 source))
(assert (<= source 2147483647))
(assert (<= 0 call_input_stride))
(assert (<= call_input_stride 2147483647))
(assert (not (and (<= (- 9223372036854775808) call_input_stride) (<= call_input_stride 9223372036854775807) (<= (- 9223372036854775808) (* source call_input_stride)) (<= (* source call_input_stride) 9223372036854775807) (<= 0 (* source call_input_stride)))))
(check-sat)

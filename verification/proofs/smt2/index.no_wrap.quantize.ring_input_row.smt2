; index.no_wrap.quantize.ring_input_row
; csrc/quantize_kernel.cuh: no part of `source * (int64_t{call.input_stride} * 2)` leaves its type,
;   up to the value 9,223,372,028,264,841,218.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const source Int)
(declare-const call_input_stride Int)
(assert (<= 0 source))
(assert (<= source 2147483647))
(assert (<= 0 call_input_stride))
(assert (<= call_input_stride 2147483647))
(assert (not (and (<= (- 9223372036854775808) call_input_stride) (<= call_input_stride 9223372036854775807) (<= (- 9223372036854775808) (* call_input_stride 2)) (<= (* call_input_stride 2) 9223372036854775807) (<= (- 9223372036854775808) (* source (* call_input_stride 2))) (<= (* source (* call_input_stride 2)) 9223372036854775807) (<= 0 (* source (* call_input_stride 2))))))
(check-sat)

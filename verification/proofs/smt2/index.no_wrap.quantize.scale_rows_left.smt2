; index.no_wrap.quantize.scale_rows_left
; include/nvfp4_moe/quantize.h: no part of `call.scale_rows - scale_row` leaves its type, up to the
;   value 144,115,190,223,339,520.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_scale_rows Int)
(declare-const scale_row Int)
(assert (<= 0 call_scale_rows))
(assert (<= call_scale_rows 144115188075855872))
(assert (<= (- 2147483648) scale_row))
(assert (<= scale_row 274877906816))
(assert (not (and (<= (- 9223372036854775808) (- call_scale_rows scale_row)) (<= (- call_scale_rows scale_row) 9223372036854775807))))
(check-sat)

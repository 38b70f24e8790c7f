; index.no_wrap.quantize.scale_rows_left_words
; include/nvfp4_moe/quantize.h: no part of `call.scale_rows - scale_row` leaves its type, up to the
;   value 144,115,190,223,339,520.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_scale_rows (_ BitVec 64))
(declare-const scale_row (_ BitVec 64))
(assert (bvsle (_ bv0 64) call_scale_rows))
(assert (bvsle call_scale_rows (_ bv144115188075855872 64)))
(assert (bvsle (_ bv18446744071562067968 64) scale_row))
(assert (bvsle scale_row (_ bv274877906816 64)))
(assert (not (not (bvssubo call_scale_rows scale_row))))
(check-sat)

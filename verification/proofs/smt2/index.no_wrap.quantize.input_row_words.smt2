; index.no_wrap.quantize.input_row_words
; include/nvfp4_moe/quantize.h: no part of `source * int64_t{call.input_stride}` leaves its type, up
;   to the value 4,611,686,014,132,420,609.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const source (_ BitVec 64))
(declare-const call_input_stride (_ BitVec 32))
(assert (bvsle (_ bv0 64) source))
(assert (bvsle source (_ bv2147483647 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) call_input_stride)))
(assert (bvsle ((_ sign_extend 32) call_input_stride) (_ bv2147483647 64)))
(assert (not (and (not (bvsmulo source ((_ sign_extend 32) call_input_stride))) (bvsle (_ bv0 64) (bvmul source ((_ sign_extend 32) call_input_stride))))))
(check-sat)

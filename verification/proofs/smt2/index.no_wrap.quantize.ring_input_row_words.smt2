; index.no_wrap.quantize.ring_input_row_words
; csrc/quantize_kernel.cuh: no part of `source * (int64_t{call.input_stride} * 2)` leaves its type,
;   up to the value 9,223,372,028,264,841,218.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const source (_ BitVec 64))
(declare-const call_input_stride (_ BitVec 32))
(assert (bvsle (_ bv0 64) source))
(assert (bvsle source (_ bv2147483647 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) call_input_stride)))
(assert (bvsle ((_ sign_extend 32) call_input_stride) (_ bv2147483647 64)))
(assert (not (and (not (bvsmulo ((_ sign_extend 32) call_input_stride) (_ bv2 64))) (not (bvsmulo source (bvmul ((_ sign_extend 32) call_input_stride) (_ bv2 64)))) (bvsle (_ bv0 64) (bvmul source (bvmul ((_ sign_extend 32) call_input_stride) (_ bv2 64)))))))
(check-sat)

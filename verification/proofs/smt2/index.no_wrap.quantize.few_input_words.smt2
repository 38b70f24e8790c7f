; index.no_wrap.quantize.few_input_words
; csrc/few_rows_kernel.cuh: no part of `source * int64_t{call.input_stride} + block * kBlockSize`
;   leaves its type, up to the value 4,611,686,014,132,428,785.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const source (_ BitVec 64))
(declare-const call_input_stride (_ BitVec 32))
(declare-const block (_ BitVec 32))
(assert (bvsle (_ bv0 64) source))
(assert (bvsle source (_ bv2147483647 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) call_input_stride)))
(assert (bvsle ((_ sign_extend 32) call_input_stride) (_ bv2147483647 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) block)))
(assert (bvsle ((_ sign_extend 32) block) (_ bv511 64)))
(assert (not (and (not (bvsmulo source ((_ sign_extend 32) call_input_stride))) (not (bvsmulo block (_ bv16 32))) (not (bvsaddo (bvmul source ((_ sign_extend 32) call_input_stride)) ((_ sign_extend 32) (bvmul block (_ bv16 32))))) (bvsle (_ bv0 64) (bvadd (bvmul source ((_ sign_extend 32) call_input_stride)) ((_ sign_extend 32) (bvmul block (_ bv16 32))))))))
(check-sat)

; index.no_wrap.quantize.few_packed_byte_words
; csrc/few_rows_kernel.cuh: no part of `int64_t{row} * (call.k / 2) + block * (kBlockSize / 2)`
;   leaves its type, up to the value 67,108,856.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_k (_ BitVec 32))
(declare-const row (_ BitVec 32))
(declare-const block (_ BitVec 32))
(assert (bvsle (_ bv16 64) ((_ sign_extend 32) call_k)))
(assert (bvsle ((_ sign_extend 32) call_k) (_ bv8192 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (_ bv16383 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) block)))
(assert (bvsle ((_ sign_extend 32) block) (bvsub (bvudiv ((_ sign_extend 32) call_k) (_ bv16 64)) (_ bv1 64))))
(assert (not (and (bvsle (_ bv0 32) call_k) (bvsle (_ bv0 32) (_ bv2 32)) (not (= (_ bv2 32) (_ bv0 32))) (not (bvsmulo ((_ sign_extend 32) row) ((_ sign_extend 32) (bvudiv call_k (_ bv2 32))))) (not (bvsmulo block (_ bv8 32))) (not (bvsaddo (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) (bvudiv call_k (_ bv2 32)))) ((_ sign_extend 32) (bvmul block (_ bv8 32))))) (bvsle (_ bv0 64) (bvadd (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) (bvudiv call_k (_ bv2 32)))) ((_ sign_extend 32) (bvmul block (_ bv8 32))))))))
(check-sat)

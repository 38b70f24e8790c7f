; index.no_wrap.gemm.gemm_plain_row_words
; csrc/gemm_prepare.cuh: no part of `row * int64_t{call.k} + block * kBlockSize` leaves its type, up
;   to the value 288,230,358,971,842,544.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_k (_ BitVec 32))
(declare-const row (_ BitVec 32))
(declare-const block (_ BitVec 32))
(assert (bvsle (_ bv16 64) ((_ sign_extend 32) call_k)))
(assert (bvsle ((_ sign_extend 32) call_k) (_ bv134217728 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (_ bv2147483519 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) block)))
(assert (bvsle ((_ sign_extend 32) block) (bvsub (bvudiv ((_ sign_extend 32) call_k) (_ bv16 64)) (_ bv1 64))))
(assert (not (and (not (bvsmulo ((_ sign_extend 32) row) ((_ sign_extend 32) call_k))) (not (bvsmulo block (_ bv16 32))) (not (bvsaddo (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) call_k)) ((_ sign_extend 32) (bvmul block (_ bv16 32))))) (bvsle (_ bv0 64) (bvadd (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) call_k)) ((_ sign_extend 32) (bvmul block (_ bv16 32))))))))
(check-sat)

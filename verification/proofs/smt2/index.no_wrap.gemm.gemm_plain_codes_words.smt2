; index.no_wrap.gemm.gemm_plain_codes_words
; csrc/gemm_prepare.cuh: no part of `row * int64_t{call.k / 2} + block * (kBlockSize / 2)` leaves
;   its type, up to the value 144,115,179,485,921,272.
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
(assert (not (and (bvsle (_ bv0 32) call_k) (bvsle (_ bv0 32) (_ bv2 32)) (not (= (_ bv2 32) (_ bv0 32))) (not (bvsmulo ((_ sign_extend 32) row) ((_ sign_extend 32) (bvudiv call_k (_ bv2 32))))) (not (bvsmulo block (_ bv8 32))) (not (bvsaddo (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) (bvudiv call_k (_ bv2 32)))) ((_ sign_extend 32) (bvmul block (_ bv8 32))))) (bvsle (_ bv0 64) (bvadd (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) (bvudiv call_k (_ bv2 32)))) ((_ sign_extend 32) (bvmul block (_ bv8 32))))))))
(check-sat)

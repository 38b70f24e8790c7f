; index.no_wrap.gemm.gemm_prepared_codes_words
; csrc/gemm_prepare.cuh: no part of `row * int64_t{call.k / 2} + column / 2` leaves its type, up to
;   the value 144,115,179,485,921,279.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_k (_ BitVec 32))
(declare-const row (_ BitVec 32))
(declare-const column (_ BitVec 32))
(assert (bvsle (_ bv16 64) ((_ sign_extend 32) call_k)))
(assert (bvsle ((_ sign_extend 32) call_k) (_ bv134217728 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (_ bv2147483519 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) column)))
(assert (bvsle ((_ sign_extend 32) column) (bvsub ((_ sign_extend 32) call_k) (_ bv1 64))))
(assert (not (and (bvsle (_ bv0 32) call_k) (bvsle (_ bv0 32) (_ bv2 32)) (not (= (_ bv2 32) (_ bv0 32))) (not (bvsmulo ((_ sign_extend 32) row) ((_ sign_extend 32) (bvudiv call_k (_ bv2 32))))) (bvsle (_ bv0 32) column) (not (bvsaddo (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) (bvudiv call_k (_ bv2 32)))) ((_ sign_extend 32) (bvudiv column (_ bv2 32))))) (bvsle (_ bv0 64) (bvadd (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) (bvudiv call_k (_ bv2 32)))) ((_ sign_extend 32) (bvudiv column (_ bv2 32))))))))
(check-sat)

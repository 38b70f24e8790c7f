; index.no_wrap.gemm.gemm_prepared_row_words
; csrc/gemm_prepare.cuh: no part of `row * int64_t{steps} * kStepK + piece / 4 * kStepK` leaves its
;   type, up to the value 288,230,358,971,850,624.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const steps (_ BitVec 32))
(declare-const kStepK (_ BitVec 32))
(declare-const row (_ BitVec 32))
(declare-const piece (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) steps)))
(assert (bvsle ((_ sign_extend 32) steps) (_ bv1048576 64)))
(assert (bvsle (_ bv128 64) ((_ sign_extend 32) kStepK)))
(assert (bvsle ((_ sign_extend 32) kStepK) (_ bv128 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (_ bv2147483519 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) piece)))
(assert (bvsle ((_ sign_extend 32) piece) (_ bv4194559 64)))
(assert (not (and (not (bvsmulo ((_ sign_extend 32) row) ((_ sign_extend 32) steps))) (not (bvsmulo (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) steps)) ((_ sign_extend 32) kStepK))) (bvsle (_ bv0 32) piece) (bvsle (_ bv0 32) (_ bv4 32)) (not (= (_ bv4 32) (_ bv0 32))) (not (bvsmulo (bvudiv piece (_ bv4 32)) kStepK)) (not (bvsaddo (bvmul (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) steps)) ((_ sign_extend 32) kStepK)) ((_ sign_extend 32) (bvmul (bvudiv piece (_ bv4 32)) kStepK)))) (bvsle (_ bv0 64) (bvadd (bvmul (bvmul ((_ sign_extend 32) row) ((_ sign_extend 32) steps)) ((_ sign_extend 32) kStepK)) ((_ sign_extend 32) (bvmul (bvudiv piece (_ bv4 32)) kStepK)))))))
(check-sat)

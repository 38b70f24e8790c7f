; index.no_wrap.gemm.gemm_stored_words
; csrc/gemm_kernel.cuh: no part of `int64_t{unit.first_row} * given.call.n + column` leaves its
;   type, up to the value 288,230,358,837,624,831.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const given_call_n (_ BitVec 32))
(declare-const unit_first_row (_ BitVec 32))
(declare-const column (_ BitVec 32))
(assert (bvsle (_ bv8 64) ((_ sign_extend 32) given_call_n)))
(assert (bvsle ((_ sign_extend 32) given_call_n) (_ bv134217728 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) unit_first_row)))
(assert (bvsle ((_ sign_extend 32) unit_first_row) (_ bv2147483518 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) column)))
(assert (bvsle ((_ sign_extend 32) column) (bvsub ((_ sign_extend 32) given_call_n) (_ bv1 64))))
(assert (not (and (not (bvsmulo ((_ sign_extend 32) unit_first_row) ((_ sign_extend 32) given_call_n))) (not (bvsaddo (bvmul ((_ sign_extend 32) unit_first_row) ((_ sign_extend 32) given_call_n)) ((_ sign_extend 32) column))) (bvsle (_ bv0 64) (bvadd (bvmul ((_ sign_extend 32) unit_first_row) ((_ sign_extend 32) given_call_n)) ((_ sign_extend 32) column))))))
(check-sat)

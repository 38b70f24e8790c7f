; index.no_wrap.gemm.gemm_copied_row_words
; csrc/gemm_kernel.cuh: no part of `unit.first_row + row` leaves its type, up to the value
;   2,147,483,526.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const unit_first_row (_ BitVec 32))
(declare-const row (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) unit_first_row)))
(assert (bvsle ((_ sign_extend 32) unit_first_row) (_ bv2147483518 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (bvsub (_ bv2147483526 64) ((_ sign_extend 32) unit_first_row))))
(assert (not (and (not (bvsaddo unit_first_row row)) (bvsle (_ bv0 32) (bvadd unit_first_row row)))))
(check-sat)

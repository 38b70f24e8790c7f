; index.no_wrap.gemm.gemm_unit_row_words
; csrc/gemm_kernel.cuh: no part of `rows.first + first` leaves its type, up to the value
;   2,147,483,519.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const rows_first (_ BitVec 32))
(declare-const first (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) rows_first)))
(assert (bvsle ((_ sign_extend 32) rows_first) (_ bv2147483519 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) (bvsub (_ bv2147483519 64) ((_ sign_extend 32) rows_first))))
(assert (not (and (not (bvsaddo rows_first first)) (bvsle (_ bv0 32) (bvadd rows_first first)))))
(check-sat)

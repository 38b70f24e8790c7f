; index.no_wrap.gemm.gemm_last_row_words
; include/nvfp4_moe/gemm.h: no part of `int64_t{rows.first} + rows.count` leaves its type, up to the
;   value 4,294,967,294.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const rows_first (_ BitVec 32))
(declare-const rows_count (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) rows_first)))
(assert (bvsle ((_ sign_extend 32) rows_first) (_ bv2147483647 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) rows_count)))
(assert (bvsle ((_ sign_extend 32) rows_count) (_ bv2147483647 64)))
(assert (not (and (not (bvsaddo ((_ sign_extend 32) rows_first) ((_ sign_extend 32) rows_count))) (bvsle (_ bv0 64) (bvadd ((_ sign_extend 32) rows_first) ((_ sign_extend 32) rows_count))))))
(check-sat)

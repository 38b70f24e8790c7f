; index.no_wrap.gemm.gemm_out_words
; csrc/gemm_host.h: no part of `(int64_t{rows.first} + row) * call.n + first` leaves its type, up to
;   the value 288,230,358,971,842,552.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_n (_ BitVec 32))
(declare-const rows_first (_ BitVec 32))
(declare-const row (_ BitVec 32))
(declare-const first (_ BitVec 32))
(assert (bvsle (_ bv8 64) ((_ sign_extend 32) call_n)))
(assert (bvsle ((_ sign_extend 32) call_n) (_ bv134217728 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) rows_first)))
(assert (bvsle ((_ sign_extend 32) rows_first) (_ bv2147483519 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (bvsub (_ bv2147483519 64) ((_ sign_extend 32) rows_first))))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) (bvsub ((_ sign_extend 32) call_n) (_ bv8 64))))
(assert (not (and (not (bvsaddo ((_ sign_extend 32) rows_first) ((_ sign_extend 32) row))) (not (bvsmulo (bvadd ((_ sign_extend 32) rows_first) ((_ sign_extend 32) row)) ((_ sign_extend 32) call_n))) (not (bvsaddo (bvmul (bvadd ((_ sign_extend 32) rows_first) ((_ sign_extend 32) row)) ((_ sign_extend 32) call_n)) ((_ sign_extend 32) first))) (bvsle (_ bv0 64) (bvadd (bvmul (bvadd ((_ sign_extend 32) rows_first) ((_ sign_extend 32) row)) ((_ sign_extend 32) call_n)) ((_ sign_extend 32) first))))))
(check-sat)

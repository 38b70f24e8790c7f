; index.no_wrap.gemm.gemm_last_scale_row_words
; include/nvfp4_moe/gemm.h: no part of `rows.scale_row + round_up(rows.count, kTileRows)` leaves its
;   type, up to the value 4,294,967,295.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const rows_scale_row (_ BitVec 32))
(declare-const rows_count (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) rows_scale_row)))
(assert (bvsle ((_ sign_extend 32) rows_scale_row) (_ bv2147483647 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) rows_count)))
(assert (bvsle ((_ sign_extend 32) rows_count) (_ bv2147483647 64)))
(assert (not (and (not (bvsaddo ((_ sign_extend 32) rows_count) (_ bv128 64))) (not (bvssubo (bvadd ((_ sign_extend 32) rows_count) (_ bv128 64)) (_ bv1 64))) (bvsle (_ bv0 64) (bvsub (bvadd ((_ sign_extend 32) rows_count) (_ bv128 64)) (_ bv1 64))) (bvsle (_ bv0 64) (_ bv128 64)) (not (= (_ bv128 64) (_ bv0 64))) (not (bvsmulo (bvudiv (bvsub (bvadd ((_ sign_extend 32) rows_count) (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64))) (not (bvsaddo ((_ sign_extend 32) rows_scale_row) (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) rows_count) (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64)))) (bvsle (_ bv0 64) (bvadd ((_ sign_extend 32) rows_scale_row) (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) rows_count) (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64)))))))
(check-sat)

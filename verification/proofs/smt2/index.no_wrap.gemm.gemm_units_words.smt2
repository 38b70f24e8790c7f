; index.no_wrap.gemm.gemm_units_words
; csrc/gemm_kernel.cuh: no part of `int64_t{tiles} * given.column_tiles` leaves its type, up to the
;   value 2,251,799,812,636,672.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const tiles (_ BitVec 32))
(declare-const given_column_tiles (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) tiles)))
(assert (bvsle ((_ sign_extend 32) tiles) (_ bv2147483647 64)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) given_column_tiles)))
(assert (bvsle ((_ sign_extend 32) given_column_tiles) (_ bv1048576 64)))
(assert (not (and (not (bvsmulo ((_ sign_extend 32) tiles) ((_ sign_extend 32) given_column_tiles))) (bvsle (_ bv0 64) (bvmul ((_ sign_extend 32) tiles) ((_ sign_extend 32) given_column_tiles))))))
(check-sat)

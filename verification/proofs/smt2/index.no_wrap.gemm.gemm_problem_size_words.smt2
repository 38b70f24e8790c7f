; index.no_wrap.gemm.gemm_problem_size_words
; include/nvfp4_moe/gemm.h: no part of `int64_t{3} * expert` leaves its type, up to the value
;   6,442,254,330.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const expert (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) expert)))
(assert (bvsle ((_ sign_extend 32) expert) (_ bv2147418110 64)))
(assert (not (and (not (bvsmulo (_ bv3 64) ((_ sign_extend 32) expert))) (bvsle (_ bv0 64) (bvmul (_ bv3 64) ((_ sign_extend 32) expert))))))
(check-sat)

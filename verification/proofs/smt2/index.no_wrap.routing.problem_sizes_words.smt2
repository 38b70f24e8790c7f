; index.no_wrap.routing.problem_sizes_words
; include/nvfp4_moe/routing.h: no part of `int64_t{3} * e + 2` leaves its type, up to the value
;   25,165,820.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const e (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) e)))
(assert (bvsle ((_ sign_extend 32) e) (_ bv8388606 64)))
(assert (not (and (not (bvsmulo (_ bv3 64) ((_ sign_extend 32) e))) (not (bvsaddo (bvmul (_ bv3 64) ((_ sign_extend 32) e)) (_ bv2 64))) (bvsle (_ bv0 64) (bvadd (bvmul (_ bv3 64) ((_ sign_extend 32) e)) (_ bv2 64))))))
(check-sat)

; index.no_wrap.gemm.gemm_middle_words
; include/nvfp4_moe/gemm.h: no part of `first + (last - first) / 2` leaves its type, up to the value
;   2,147,418,111.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_experts (_ BitVec 32))
(declare-const last (_ BitVec 32))
(declare-const first (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) call_experts)))
(assert (bvsle ((_ sign_extend 32) call_experts) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) last)))
(assert (bvsle ((_ sign_extend 32) last) ((_ sign_extend 32) call_experts)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) ((_ sign_extend 32) last)))
(assert (not (and (not (bvssubo last first)) (bvsle (_ bv0 32) (bvsub last first)) (bvsle (_ bv0 32) (_ bv2 32)) (not (= (_ bv2 32) (_ bv0 32))) (not (bvsaddo first (bvudiv (bvsub last first) (_ bv2 32)))) (bvsle (_ bv0 32) (bvadd first (bvudiv (bvsub last first) (_ bv2 32)))))))
(check-sat)

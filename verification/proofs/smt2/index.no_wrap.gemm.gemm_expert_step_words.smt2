; index.no_wrap.gemm.gemm_expert_step_words
; csrc/gemm_prepare.cuh: no part of `begin + kPrepareThreads` leaves its type, up to the value
;   2,147,418,366.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_experts (_ BitVec 32))
(declare-const begin (_ BitVec 32))
(declare-const kPrepareThreads (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) call_experts)))
(assert (bvsle ((_ sign_extend 32) call_experts) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) begin)))
(assert (bvsle ((_ sign_extend 32) begin) (bvsub ((_ sign_extend 32) call_experts) (_ bv1 64))))
(assert (bvsle (_ bv256 64) ((_ sign_extend 32) kPrepareThreads)))
(assert (bvsle ((_ sign_extend 32) kPrepareThreads) (_ bv256 64)))
(assert (not (and (not (bvsaddo begin kPrepareThreads)) (bvsle (_ bv0 32) (bvadd begin kPrepareThreads)))))
(check-sat)

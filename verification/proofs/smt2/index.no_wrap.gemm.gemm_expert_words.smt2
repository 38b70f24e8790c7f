; index.no_wrap.gemm.gemm_expert_words
; csrc/gemm_prepare.cuh: no part of `begin + static_cast<int32_t>(threadIdx.x)` leaves its type, up
;   to the value 2,147,418,365.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_experts (_ BitVec 32))
(declare-const begin (_ BitVec 32))
(declare-const threadIdx_x (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) call_experts)))
(assert (bvsle ((_ sign_extend 32) call_experts) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) begin)))
(assert (bvsle ((_ sign_extend 32) begin) (bvsub ((_ sign_extend 32) call_experts) (_ bv1 64))))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) threadIdx_x)))
(assert (bvsle ((_ zero_extend 32) threadIdx_x) (_ bv255 64)))
(assert (not (and (bvsle (_ bv0 32) threadIdx_x) (not (bvsaddo begin threadIdx_x)) (bvsle (_ bv0 32) (bvadd begin threadIdx_x)))))
(check-sat)

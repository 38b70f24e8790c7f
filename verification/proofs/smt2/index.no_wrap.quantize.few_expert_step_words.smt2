; index.no_wrap.quantize.few_expert_step_words
; csrc/few_rows_kernel.cuh: no part of `e + static_cast<int32_t>(blockDim.x)` leaves its type, up to
;   the value 2,147,418,622.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_experts (_ BitVec 32))
(declare-const e (_ BitVec 32))
(declare-const blockDim_x (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) call_experts)))
(assert (bvsle ((_ sign_extend 32) call_experts) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) e)))
(assert (bvsle ((_ sign_extend 32) e) (bvsub ((_ sign_extend 32) call_experts) (_ bv1 64))))
(assert (bvsle (_ bv32 64) ((_ zero_extend 32) blockDim_x)))
(assert (bvsle ((_ zero_extend 32) blockDim_x) (_ bv512 64)))
(assert (not (and (bvsle (_ bv0 32) blockDim_x) (not (bvsaddo e blockDim_x)) (bvsle (_ bv0 32) (bvadd e blockDim_x)))))
(check-sat)

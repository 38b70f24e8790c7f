; index.no_wrap.routing.warp_counts_words
; csrc/routing_kernel.cuh: no part of `warp * call.experts` leaves its type, up to the value
;   983,040.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_experts (_ BitVec 32))
(declare-const warp (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) call_experts)))
(assert (bvsle ((_ sign_extend 32) call_experts) (_ bv65536 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) warp)))
(assert (bvsle ((_ sign_extend 32) warp) (_ bv15 64)))
(assert (not (and (not (bvsmulo warp call_experts)) (bvsle (_ bv0 32) (bvmul warp call_experts)))))
(check-sat)

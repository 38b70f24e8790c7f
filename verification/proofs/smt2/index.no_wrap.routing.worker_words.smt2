; index.no_wrap.routing.worker_words
; csrc/routing_kernel.cuh: no part of `int64_t{blockIdx.x} * warps + warp` leaves its type, up to
;   the value 1,023.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const blockIdx_x (_ BitVec 32))
(declare-const warps (_ BitVec 32))
(declare-const warp (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) blockIdx_x)))
(assert (bvsle ((_ zero_extend 32) blockIdx_x) (_ bv63 64)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) warps)))
(assert (bvsle ((_ sign_extend 32) warps) (_ bv16 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) warp)))
(assert (bvsle ((_ sign_extend 32) warp) (bvsub ((_ sign_extend 32) warps) (_ bv1 64))))
(assert (not (and (not (bvsmulo ((_ zero_extend 32) blockIdx_x) ((_ sign_extend 32) warps))) (not (bvsaddo (bvmul ((_ zero_extend 32) blockIdx_x) ((_ sign_extend 32) warps)) ((_ sign_extend 32) warp))) (bvsle (_ bv0 64) (bvadd (bvmul ((_ zero_extend 32) blockIdx_x) ((_ sign_extend 32) warps)) ((_ sign_extend 32) warp))))))
(check-sat)

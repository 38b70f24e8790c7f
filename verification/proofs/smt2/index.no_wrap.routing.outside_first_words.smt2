; index.no_wrap.routing.outside_first_words
; csrc/routing_kernel.cuh: no part of `block * threads + static_cast<int32_t>(threadIdx.x)` leaves
;   its type, up to the value 8,191.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const threads (_ BitVec 32))
(declare-const block (_ BitVec 32))
(declare-const threadIdx_x (_ BitVec 32))
(assert (bvsle (_ bv32 64) ((_ sign_extend 32) threads)))
(assert (bvsle ((_ sign_extend 32) threads) (_ bv512 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) block)))
(assert (bvsle ((_ sign_extend 32) block) (_ bv15 64)))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) threadIdx_x)))
(assert (bvsle ((_ zero_extend 32) threadIdx_x) (bvsub ((_ sign_extend 32) threads) (_ bv1 64))))
(assert (not (and (not (bvsmulo block threads)) (bvsle (_ bv0 32) threadIdx_x) (not (bvsaddo (bvmul block threads) threadIdx_x)) (bvsle (_ bv0 32) (bvadd (bvmul block threads) threadIdx_x)))))
(check-sat)

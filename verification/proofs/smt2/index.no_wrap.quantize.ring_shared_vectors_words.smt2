; index.no_wrap.quantize.ring_shared_vectors_words
; csrc/quantize_kernel.cuh: no part of `2 * (call.experts + 1) + i` leaves its type, up to the value
;   6,145.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_experts (_ BitVec 32))
(declare-const i (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) call_experts)))
(assert (bvsle ((_ sign_extend 32) call_experts) (_ bv2048 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) i)))
(assert (bvsle ((_ sign_extend 32) i) (bvsub ((_ sign_extend 32) call_experts) (_ bv1 64))))
(assert (not (and (not (bvsaddo call_experts (_ bv1 32))) (not (bvsmulo (_ bv2 32) (bvadd call_experts (_ bv1 32)))) (not (bvsaddo (bvmul (_ bv2 32) (bvadd call_experts (_ bv1 32))) i)) (bvsle (_ bv0 32) (bvadd (bvmul (_ bv2 32) (bvadd call_experts (_ bv1 32))) i)))))
(check-sat)

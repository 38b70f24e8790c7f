; index.no_wrap.quantize.ring_padding_first_words
; csrc/quantize_kernel.cuh: no part of `static_cast<int32_t>(blockIdx.y) * threads + thread` leaves
;   its type, up to the value 8,388,607.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const threads (_ BitVec 32))
(declare-const blockIdx_y (_ BitVec 32))
(declare-const thread (_ BitVec 32))
(assert (bvsle (_ bv32 64) ((_ sign_extend 32) threads)))
(assert (bvsle ((_ sign_extend 32) threads) (_ bv256 64)))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) blockIdx_y)))
(assert (bvsle ((_ zero_extend 32) blockIdx_y) (_ bv32767 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) thread)))
(assert (bvsle ((_ sign_extend 32) thread) (bvsub ((_ sign_extend 32) threads) (_ bv1 64))))
(assert (not (and (bvsle (_ bv0 32) blockIdx_y) (not (bvsmulo blockIdx_y threads)) (not (bvsaddo (bvmul blockIdx_y threads) thread)) (bvsle (_ bv0 32) (bvadd (bvmul blockIdx_y threads) thread)))))
(check-sat)

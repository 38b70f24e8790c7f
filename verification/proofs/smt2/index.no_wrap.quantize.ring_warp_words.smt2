; index.no_wrap.quantize.ring_warp_words
; csrc/quantize_kernel.cuh: no part of `static_cast<int32_t>(threadIdx.y * blockDim.x +
;   threadIdx.x)` leaves its type, up to the value 2,047.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const blockDim_y (_ BitVec 32))
(declare-const threadIdx_y (_ BitVec 32))
(declare-const blockDim_x (_ BitVec 32))
(declare-const threadIdx_x (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ zero_extend 32) blockDim_y)))
(assert (bvsle ((_ zero_extend 32) blockDim_y) (_ bv8 64)))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) threadIdx_y)))
(assert (bvsle ((_ zero_extend 32) threadIdx_y) (bvsub ((_ zero_extend 32) blockDim_y) (_ bv1 64))))
(assert (bvsle (_ bv32 64) ((_ zero_extend 32) blockDim_x)))
(assert (bvsle ((_ zero_extend 32) blockDim_x) (_ bv256 64)))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) threadIdx_x)))
(assert (bvsle ((_ zero_extend 32) threadIdx_x) (bvsub ((_ zero_extend 32) blockDim_x) (_ bv1 64))))
(assert (not (and (not (bvumulo threadIdx_y blockDim_x)) (not (bvuaddo (bvmul threadIdx_y blockDim_x) threadIdx_x)) (bvsle (_ bv0 32) (bvadd (bvmul threadIdx_y blockDim_x) threadIdx_x)) (bvsle (_ bv0 32) (bvadd (bvmul threadIdx_y blockDim_x) threadIdx_x)))))
(check-sat)

; index.no_wrap.quantize.ring_padding_expert_words
; csrc/quantize_kernel.cuh: no part of `static_cast<int32_t>(blockIdx.x) - split.row_blocks` leaves
;   its type, up to the value 2,147,483,645.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const blockIdx_x (_ BitVec 32))
(declare-const split_row_blocks (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) blockIdx_x)))
(assert (bvsle ((_ zero_extend 32) blockIdx_x) (_ bv2147483646 64)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) split_row_blocks)))
(assert (bvsle ((_ sign_extend 32) split_row_blocks) (_ bv2147418111 64)))
(assert (not (and (bvsle (_ bv0 32) blockIdx_x) (not (bvssubo blockIdx_x split_row_blocks)))))
(check-sat)

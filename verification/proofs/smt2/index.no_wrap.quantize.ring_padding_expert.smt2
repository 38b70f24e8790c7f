; index.no_wrap.quantize.ring_padding_expert
; csrc/quantize_kernel.cuh: no part of `static_cast<int32_t>(blockIdx.x) - split.row_blocks` leaves
;   its type, up to the value 2,147,483,645.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const blockIdx_x Int)
(declare-const split_row_blocks Int)
(assert (<= 0 blockIdx_x))
(assert (<= blockIdx_x 2147483646))
(assert (<= 1 split_row_blocks))
(assert (<= split_row_blocks 2147418111))
(assert (not (and (<= (- 2147483648) blockIdx_x) (<= blockIdx_x 2147483647) (<= (- 2147483648) (- blockIdx_x split_row_blocks)) (<= (- blockIdx_x split_row_blocks) 2147483647))))
(check-sat)

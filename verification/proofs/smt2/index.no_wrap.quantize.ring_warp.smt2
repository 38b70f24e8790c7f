; index.no_wrap.quantize.ring_warp
; csrc/quantize_kernel.cuh: no part of `static_cast<int32_t>(threadIdx.y * blockDim.x +
;   threadIdx.x)` leaves its type, up to the value 2,047.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const blockDim_y Int)
(declare-const threadIdx_y Int)
(declare-const blockDim_x Int)
(declare-const threadIdx_x Int)
(assert (<= 1 blockDim_y))
(assert (<= blockDim_y 8))
(assert (<= 0 threadIdx_y))
(assert (<= threadIdx_y (- blockDim_y 1)))
(assert (<= 32 blockDim_x))
(assert (<= blockDim_x 256))
(assert (<= 0 threadIdx_x))
(assert (<= threadIdx_x (- blockDim_x 1)))
(assert (not (and (<= 0 (* threadIdx_y blockDim_x)) (<= (* threadIdx_y blockDim_x) 4294967295) (<= 0 (+ (* threadIdx_y blockDim_x) threadIdx_x)) (<= (+ (* threadIdx_y blockDim_x) threadIdx_x) 4294967295) (<= (- 2147483648) (+ (* threadIdx_y blockDim_x) threadIdx_x)) (<= (+ (* threadIdx_y blockDim_x) threadIdx_x) 2147483647) (<= 0 (+ (* threadIdx_y blockDim_x) threadIdx_x)))))
(check-sat)

; index.no_wrap.quantize.ring_block
; csrc/quantize_kernel.cuh: no part of `static_cast<int32_t>(blockIdx.y * blockDim.x + threadIdx.x)`
;   leaves its type, up to the value 8,388,607.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const blockIdx_y Int)
(declare-const blockDim_x Int)
(declare-const threadIdx_x Int)
(assert (<= 0 blockIdx_y))
(assert (<= blockIdx_y 32767))
(assert (<= 32 blockDim_x))
(assert (<= blockDim_x 256))
(assert (<= 0 threadIdx_x))
(assert (<= threadIdx_x (- blockDim_x 1)))
(assert (not (and (<= 0 (* blockIdx_y blockDim_x)) (<= (* blockIdx_y blockDim_x) 4294967295) (<= 0 (+ (* blockIdx_y blockDim_x) threadIdx_x)) (<= (+ (* blockIdx_y blockDim_x) threadIdx_x) 4294967295) (<= (- 2147483648) (+ (* blockIdx_y blockDim_x) threadIdx_x)) (<= (+ (* blockIdx_y blockDim_x) threadIdx_x) 2147483647) (<= 0 (+ (* blockIdx_y blockDim_x) threadIdx_x)))))
(check-sat)

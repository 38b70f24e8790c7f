; index.no_wrap.quantize.ring_padding_first
; csrc/quantize_kernel.cuh: no part of `static_cast<int32_t>(blockIdx.y) * threads + thread` leaves
;   its type, up to the value 8,388,607.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const threads Int)
(declare-const blockIdx_y Int)
(declare-const thread Int)
(assert (<= 32 threads))
(assert (<= threads 256))
(assert (<= 0 blockIdx_y))
(assert (<= blockIdx_y 32767))
(assert (<= 0 thread))
(assert (<= thread (- threads 1)))
(assert (not (and (<= (- 2147483648) blockIdx_y) (<= blockIdx_y 2147483647) (<= (- 2147483648) (* blockIdx_y threads)) (<= (* blockIdx_y threads) 2147483647) (<= (- 2147483648) (+ (* blockIdx_y threads) thread)) (<= (+ (* blockIdx_y threads) thread) 2147483647) (<= 0 (+ (* blockIdx_y threads) thread)))))
(check-sat)

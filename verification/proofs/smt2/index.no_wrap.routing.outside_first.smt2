; index.no_wrap.routing.outside_first
; csrc/routing_kernel.cuh: no part of `block * threads + static_cast<int32_t>(threadIdx.x)` leaves
;   its type, up to the value 8,191.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const threads Int)
(declare-const block Int)
(declare-const threadIdx_x Int)
(assert (<= 32 threads))
(assert (<= threads 512))
(assert (<= 0 block))
(assert (<= block 15))
(assert (<= 0 threadIdx_x))
(assert (<= threadIdx_x (- threads 1)))
(assert (not (and (<= (- 2147483648) (* block threads)) (<= (* block threads) 2147483647) (<= (- 2147483648) threadIdx_x) (<= threadIdx_x 2147483647) (<= (- 2147483648) (+ (* block threads) threadIdx_x)) (<= (+ (* block threads) threadIdx_x) 2147483647) (<= 0 (+ (* block threads) threadIdx_x)))))
(check-sat)

; index.no_wrap.quantize.ring_slab
; csrc/quantize_kernel.cuh: no part of `static_cast<int32_t>(blockIdx.z) * rows` leaves its type, up
;   to the value 2,147,352,578.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_experts Int)
(declare-const rows Int)
(declare-const blockIdx_z Int)
(assert (<= 1 call_experts))
(assert (<= call_experts 65535))
(assert (<= 0 rows))
(assert (<= rows 2147418111))
(assert (<= 0 blockIdx_z))
(assert (<= blockIdx_z (- call_experts 1)))
(assert (<= (* call_experts rows) 2147418111))
(assert (not (and (<= (- 2147483648) blockIdx_z) (<= blockIdx_z 2147483647) (<= (- 2147483648) (* blockIdx_z rows)) (<= (* blockIdx_z rows) 2147483647) (<= 0 (* blockIdx_z rows)))))
(check-sat)

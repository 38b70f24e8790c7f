; index.no_wrap.routing.worker
; csrc/routing_kernel.cuh: no part of `int64_t{blockIdx.x} * warps + warp` leaves its type, up to
;   the value 1,023.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const blockIdx_x Int)
(declare-const warps Int)
(declare-const warp Int)
(assert (<= 0 blockIdx_x))
(assert (<= blockIdx_x 63))
(assert (<= 1 warps))
(assert (<= warps 16))
(assert (<= 0 warp))
(assert (<= warp (- warps 1)))
(assert (not (and (<= (- 9223372036854775808) blockIdx_x) (<= blockIdx_x 9223372036854775807) (<= (- 9223372036854775808) warps) (<= warps 9223372036854775807) (<= (- 9223372036854775808) (* blockIdx_x warps)) (<= (* blockIdx_x warps) 9223372036854775807) (<= (- 9223372036854775808) warp) (<= warp 9223372036854775807) (<= (- 9223372036854775808) (+ (* blockIdx_x warps) warp)) (<= (+ (* blockIdx_x warps) warp) 9223372036854775807) (<= 0 (+ (* blockIdx_x warps) warp)))))
(check-sat)

; index.no_wrap.routing.tail
; csrc/routing_kernel.cuh: no part of `routed_rows + int64_t{blockIdx.x} * threads + thread` leaves
;   its type, up to the value 2,147,450,751.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const routed_rows Int)
(declare-const blockIdx_x Int)
(declare-const threads Int)
(declare-const thread Int)
(assert (<= 0 routed_rows))
(assert (<= routed_rows 2147417984))
(assert (<= 0 blockIdx_x))
(assert (<= blockIdx_x 63))
(assert (<= 32 threads))
(assert (<= threads 512))
(assert (<= 0 thread))
(assert (<= thread (- threads 1)))
(assert (not (and (<= (- 9223372036854775808) routed_rows) (<= routed_rows 9223372036854775807) (<= (- 9223372036854775808) blockIdx_x) (<= blockIdx_x 9223372036854775807) (<= (- 9223372036854775808) threads) (<= threads 9223372036854775807) (<= (- 9223372036854775808) (* blockIdx_x threads)) (<= (* blockIdx_x threads) 9223372036854775807) (<= (- 9223372036854775808) (+ routed_rows (* blockIdx_x threads))) (<= (+ routed_rows (* blockIdx_x threads)) 9223372036854775807) (<= (- 9223372036854775808) thread) (<= thread 9223372036854775807) (<= (- 9223372036854775808) (+ (+ routed_rows (* blockIdx_x threads)) thread)) (<= (+ (+ routed_rows (* blockIdx_x threads)) thread) 9223372036854775807) (<= 0 (+ (+ routed_rows (* blockIdx_x threads)) thread)))))
(check-sat)

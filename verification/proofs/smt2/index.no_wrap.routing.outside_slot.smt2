; index.no_wrap.routing.outside_slot
; csrc/routing_kernel.cuh: no part of `slot + int64_t{i} * stride` leaves its type, up to the value
;   2,147,475,327.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const slot Int)
(declare-const stride Int)
(declare-const i Int)
(assert (<= 0 slot))
(assert (<= slot 2147417983))
(assert (<= 32 stride))
(assert (<= stride 8192))
(assert (<= 0 i))
(assert (<= i 7))
(assert (not (and (<= (- 9223372036854775808) slot) (<= slot 9223372036854775807) (<= (- 9223372036854775808) i) (<= i 9223372036854775807) (<= (- 9223372036854775808) stride) (<= stride 9223372036854775807) (<= (- 9223372036854775808) (* i stride)) (<= (* i stride) 9223372036854775807) (<= (- 9223372036854775808) (+ slot (* i stride))) (<= (+ slot (* i stride)) 9223372036854775807) (<= 0 (+ slot (* i stride))))))
(check-sat)

; index.no_wrap.routing.problem_sizes
; include/nvfp4_moe/routing.h: no part of `int64_t{3} * e + 2` leaves its type, up to the value
;   25,165,820.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const e Int)
(assert (<= 0 e))
(assert (<= e 8388606))
(assert (not (and (<= (- 9223372036854775808) e) (<= e 9223372036854775807) (<= (- 9223372036854775808) (* 3 e)) (<= (* 3 e) 9223372036854775807) (<= (- 9223372036854775808) (+ (* 3 e) 2)) (<= (+ (* 3 e) 2) 9223372036854775807) (<= 0 (+ (* 3 e) 2)))))
(check-sat)

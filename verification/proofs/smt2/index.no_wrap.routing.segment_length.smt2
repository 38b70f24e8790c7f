; index.no_wrap.routing.segment_length
; include/nvfp4_moe/routing.h: no part of `round_up(ceil_div(slots, workers), kSegmentGrain)` leaves
;   its type, up to the value 2,147,417,984.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const slots Int)
(declare-const workers Int)
(assert (<= 0 slots))
(assert (<= slots 2147417984))
(assert (<= 1 workers))
(assert (<= workers 2147483647))
(assert (not (and (<= (- 9223372036854775808) slots) (<= slots 9223372036854775807) (<= (- 9223372036854775808) (+ slots workers)) (<= (+ slots workers) 9223372036854775807) (<= (- 9223372036854775808) (- (+ slots workers) 1)) (<= (- (+ slots workers) 1) 9223372036854775807) (<= (- 9223372036854775808) (div (- (+ slots workers) 1) workers)) (<= (div (- (+ slots workers) 1) workers) 9223372036854775807) (<= 0 (- (+ slots workers) 1)) (< 0 workers) (<= (- 9223372036854775808) (+ (div (- (+ slots workers) 1) workers) 32)) (<= (+ (div (- (+ slots workers) 1) workers) 32) 9223372036854775807) (<= (- 9223372036854775808) (- (+ (div (- (+ slots workers) 1) workers) 32) 1)) (<= (- (+ (div (- (+ slots workers) 1) workers) 32) 1) 9223372036854775807) (<= (- 9223372036854775808) (div (- (+ (div (- (+ slots workers) 1) workers) 32) 1) 32)) (<= (div (- (+ (div (- (+ slots workers) 1) workers) 32) 1) 32) 9223372036854775807) (<= 0 (- (+ (div (- (+ slots workers) 1) workers) 32) 1)) (< 0 32) (<= (- 9223372036854775808) (* (div (- (+ (div (- (+ slots workers) 1) workers) 32) 1) 32) 32)) (<= (* (div (- (+ (div (- (+ slots workers) 1) workers) 32) 1) 32) 32) 9223372036854775807) (<= 0 (* (div (- (+ (div (- (+ slots workers) 1) workers) 32) 1) 32) 32)))))
(check-sat)

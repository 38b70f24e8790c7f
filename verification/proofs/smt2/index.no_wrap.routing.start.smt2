; index.no_wrap.routing.start
; csrc/routing_kernel.cuh: no part of `running.x + offset.x + count.before` leaves its type, up to
;   the value 2,147,417,984.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const running_x Int)
(declare-const offset_x Int)
(declare-const count_before Int)
(assert (<= 0 running_x))
(assert (<= running_x 2147417984))
(assert (<= 0 offset_x))
(assert (<= offset_x (- 2147417984 running_x)))
(assert (<= 0 count_before))
(assert (<= count_before (- (- 2147417984 running_x) offset_x)))
(assert (not (and (<= (- 2147483648) (+ running_x offset_x)) (<= (+ running_x offset_x) 2147483647) (<= (- 2147483648) (+ (+ running_x offset_x) count_before)) (<= (+ (+ running_x offset_x) count_before) 2147483647) (<= 0 (+ (+ running_x offset_x) count_before)))))
(check-sat)

; index.no_wrap.routing.host_counts
; csrc/host_loops.h: no part of `static_cast<size_t>(worker * call.experts + e)` leaves its type, up
;   to the value 18,014,396,353,609,728.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const worker Int)
(declare-const call_experts Int)
(declare-const e Int)
(assert (<= 0 worker))
(assert (<= worker 2147483646))
(assert (<= 1 call_experts))
(assert (<= call_experts 8388607))
(assert (<= 0 e))
(assert (<= e (- call_experts 1)))
(assert (not (and (<= (- 9223372036854775808) call_experts) (<= call_experts 9223372036854775807) (<= (- 9223372036854775808) (* worker call_experts)) (<= (* worker call_experts) 9223372036854775807) (<= (- 9223372036854775808) e) (<= e 9223372036854775807) (<= (- 9223372036854775808) (+ (* worker call_experts) e)) (<= (+ (* worker call_experts) e) 9223372036854775807) (<= 0 (+ (* worker call_experts) e)) (<= (+ (* worker call_experts) e) 18446744073709551615))))
(check-sat)

; index.no_wrap.routing.position
; csrc/routing_kernel.cuh: no part of `start + earlier + ranked.rank` leaves its type, up to the
;   value 2,147,417,984.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const start Int)
(declare-const earlier Int)
(declare-const ranked_rank Int)
(assert (<= 0 start))
(assert (<= start 2147417984))
(assert (<= 0 earlier))
(assert (<= earlier (- 2147417984 start)))
(assert (<= 0 ranked_rank))
(assert (<= ranked_rank (- (- 2147417984 start) earlier)))
(assert (not (and (<= (- 2147483648) (+ start earlier)) (<= (+ start earlier) 2147483647) (<= (- 2147483648) (+ (+ start earlier) ranked_rank)) (<= (+ (+ start earlier) ranked_rank) 2147483647) (<= 0 (+ (+ start earlier) ranked_rank)))))
(check-sat)

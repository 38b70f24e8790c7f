; index.no_wrap.routing.staged_word
; csrc/routing_kernel.cuh: no part of `ranked.expert * 65536 + ranked.rank` leaves its type, up to
;   the value 2,147,450,879.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const ranked_expert Int)
(declare-const ranked_rank Int)
(assert (<= 0 ranked_expert))
(assert (<= ranked_expert 32767))
(assert (<= 0 ranked_rank))
(assert (<= ranked_rank 32767))
(assert (not (and (<= (- 2147483648) (* ranked_expert 65536)) (<= (* ranked_expert 65536) 2147483647) (<= (- 2147483648) (+ (* ranked_expert 65536) ranked_rank)) (<= (+ (* ranked_expert 65536) ranked_rank) 2147483647) (<= 0 (+ (* ranked_expert 65536) ranked_rank)))))
(check-sat)

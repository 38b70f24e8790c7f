; index.no_wrap.quantize.ring_row_ahead
; csrc/quantize_kernel.cuh: no part of `row + kAhead` leaves its type, up to the value
;   2,147,418,112.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const row Int)
(declare-const kAhead Int)
(assert (<= 0 row))
(assert (<= row 2147418110))
(assert (<= 2 kAhead))
(assert (<= kAhead 2))
(assert (not (and (<= (- 2147483648) (+ row kAhead)) (<= (+ row kAhead) 2147483647) (<= 0 (+ row kAhead)))))
(check-sat)

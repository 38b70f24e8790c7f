; index.no_wrap.gemm.gemm_prepared_codes
; csrc/gemm_prepare.cuh: no part of `row * int64_t{call.k / 2} + column / 2` leaves its type, up to
;   the value 144,115,179,485,921,279.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_k Int)
(declare-const row Int)
(declare-const column Int)
(assert (<= 16 call_k))
(assert (<= call_k 134217728))
(assert (<= 0 row))
(assert (<= row 2147483519))
(assert (<= 0 column))
(assert (<= column (- call_k 1)))
(assert (not (and (<= (- 9223372036854775808) row) (<= row 9223372036854775807) (<= (- 2147483648) (div call_k 2)) (<= (div call_k 2) 2147483647) (<= 0 call_k) (< 0 2) (<= (- 9223372036854775808) (div call_k 2)) (<= (div call_k 2) 9223372036854775807) (<= (- 9223372036854775808) (* row (div call_k 2))) (<= (* row (div call_k 2)) 9223372036854775807) (<= (- 2147483648) (div column 2)) (<= (div column 2) 2147483647) (<= 0 column) (<= (- 9223372036854775808) (div column 2)) (<= (div column 2) 9223372036854775807) (<= (- 9223372036854775808) (+ (* row (div call_k 2)) (div column 2))) (<= (+ (* row (div call_k 2)) (div column 2)) 9223372036854775807) (<= 0 (+ (* row (div call_k 2)) (div column 2))))))
(check-sat)

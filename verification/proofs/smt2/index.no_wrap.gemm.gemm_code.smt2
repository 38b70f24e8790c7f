; index.no_wrap.gemm.gemm_code
; csrc/gemm_host.h: no part of `row * row_bytes + column / 2` leaves its type, up to the value
;   144,115,188,142,964,735.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const row_bytes Int)
(declare-const row Int)
(declare-const column Int)
(assert (<= 8 row_bytes))
(assert (<= row_bytes 67108864))
(assert (<= 0 row))
(assert (<= row 144115188075855872))
(assert (<= 0 column))
(assert (<= column (- (* row_bytes 2) 1)))
(assert (<= (* row row_bytes) 144115188075855872))
(assert (not (and (<= (- 9223372036854775808) (* row row_bytes)) (<= (* row row_bytes) 9223372036854775807) (<= (- 2147483648) (div column 2)) (<= (div column 2) 2147483647) (<= 0 column) (< 0 2) (<= (- 9223372036854775808) (div column 2)) (<= (div column 2) 9223372036854775807) (<= (- 9223372036854775808) (+ (* row row_bytes) (div column 2))) (<= (+ (* row row_bytes) (div column 2)) 9223372036854775807) (<= 0 (+ (* row row_bytes) (div column 2))))))
(check-sat)

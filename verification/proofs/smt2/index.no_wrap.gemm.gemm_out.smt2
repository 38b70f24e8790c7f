; index.no_wrap.gemm.gemm_out
; csrc/gemm_host.h: no part of `(int64_t{rows.first} + row) * call.n + first` leaves its type, up to
;   the value 288,230,358,971,842,552.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_n Int)
(declare-const rows_first Int)
(declare-const row Int)
(declare-const first Int)
(assert (<= 8 call_n))
(assert (<= call_n 134217728))
(assert (<= 0 rows_first))
(assert (<= rows_first 2147483519))
(assert (<= 0 row))
(assert (<= row (- 2147483519 rows_first)))
(assert (<= 0 first))
(assert (<= first (- call_n 8)))
(assert (not (and (<= (- 9223372036854775808) rows_first) (<= rows_first 9223372036854775807) (<= (- 9223372036854775808) row) (<= row 9223372036854775807) (<= (- 9223372036854775808) (+ rows_first row)) (<= (+ rows_first row) 9223372036854775807) (<= (- 9223372036854775808) call_n) (<= call_n 9223372036854775807) (<= (- 9223372036854775808) (* (+ rows_first row) call_n)) (<= (* (+ rows_first row) call_n) 9223372036854775807) (<= (- 9223372036854775808) first) (<= first 9223372036854775807) (<= (- 9223372036854775808) (+ (* (+ rows_first row) call_n) first)) (<= (+ (* (+ rows_first row) call_n) first) 9223372036854775807) (<= 0 (+ (* (+ rows_first row) call_n) first)))))
(check-sat)

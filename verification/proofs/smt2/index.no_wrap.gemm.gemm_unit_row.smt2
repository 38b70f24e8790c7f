; index.no_wrap.gemm.gemm_unit_row
; csrc/gemm_kernel.cuh: no part of `rows.first + first` leaves its type, up to the value
;   2,147,483,519.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const rows_first Int)
(declare-const first Int)
(assert (<= 0 rows_first))
(assert (<= rows_first 2147483519))
(assert (<= 0 first))
(assert (<= first (- 2147483519 rows_first)))
(assert (not (and (<= (- 2147483648) (+ rows_first first)) (<= (+ rows_first first) 2147483647) (<= 0 (+ rows_first first)))))
(check-sat)

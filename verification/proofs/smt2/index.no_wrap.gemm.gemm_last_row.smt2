; index.no_wrap.gemm.gemm_last_row
; include/nvfp4_moe/gemm.h: no part of `int64_t{rows.first} + rows.count` leaves its type, up to the
;   value 4,294,967,294.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const rows_first Int)
(declare-const rows_count Int)
(assert (<= 0 rows_first))
(assert (<= rows_first 2147483647))
(assert (<= 0 rows_count))
(assert (<= rows_count 2147483647))
(assert (not (and (<= (- 9223372036854775808) rows_first) (<= rows_first 9223372036854775807) (<= (- 9223372036854775808) rows_count) (<= rows_count 9223372036854775807) (<= (- 9223372036854775808) (+ rows_first rows_count)) (<= (+ rows_first rows_count) 9223372036854775807) (<= 0 (+ rows_first rows_count)))))
(check-sat)

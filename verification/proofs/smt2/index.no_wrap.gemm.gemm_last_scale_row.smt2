; index.no_wrap.gemm.gemm_last_scale_row
; include/nvfp4_moe/gemm.h: no part of `rows.scale_row + round_up(rows.count, kTileRows)` leaves its
;   type, up to the value 4,294,967,295.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const rows_scale_row Int)
(declare-const rows_count Int)
(assert (<= 0 rows_scale_row))
(assert (<= rows_scale_row 2147483647))
(assert (<= 0 rows_count))
(assert (<= rows_count 2147483647))
(assert (not (and (<= (- 9223372036854775808) rows_scale_row) (<= rows_scale_row 9223372036854775807) (<= (- 9223372036854775808) rows_count) (<= rows_count 9223372036854775807) (<= (- 9223372036854775808) (+ rows_count 128)) (<= (+ rows_count 128) 9223372036854775807) (<= (- 9223372036854775808) (- (+ rows_count 128) 1)) (<= (- (+ rows_count 128) 1) 9223372036854775807) (<= (- 9223372036854775808) (div (- (+ rows_count 128) 1) 128)) (<= (div (- (+ rows_count 128) 1) 128) 9223372036854775807) (<= 0 (- (+ rows_count 128) 1)) (< 0 128) (<= (- 9223372036854775808) (* (div (- (+ rows_count 128) 1) 128) 128)) (<= (* (div (- (+ rows_count 128) 1) 128) 128) 9223372036854775807) (<= (- 9223372036854775808) (+ rows_scale_row (* (div (- (+ rows_count 128) 1) 128) 128))) (<= (+ rows_scale_row (* (div (- (+ rows_count 128) 1) 128) 128)) 9223372036854775807) (<= 0 (+ rows_scale_row (* (div (- (+ rows_count 128) 1) 128) 128))))))
(check-sat)

; index.no_wrap.quantize.few_padding_tile_row
; csrc/few_rows_kernel.cuh: no part of `int64_t{rows.scale_row} + owned - owned % kTileRows` leaves
;   its type, up to the value 4,294,901,631.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const rows_scale_row Int)
(declare-const owned Int)
(assert (<= 0 rows_scale_row))
(assert (<= rows_scale_row 2147483647))
(assert (<= 1 owned))
(assert (<= owned 2147418111))
(assert (not (and (<= (- 9223372036854775808) rows_scale_row) (<= rows_scale_row 9223372036854775807) (<= (- 9223372036854775808) owned) (<= owned 9223372036854775807) (<= (- 9223372036854775808) (+ rows_scale_row owned)) (<= (+ rows_scale_row owned) 9223372036854775807) (<= (- 2147483648) (mod owned 128)) (<= (mod owned 128) 2147483647) (<= 0 owned) (< 0 128) (<= (- 9223372036854775808) (mod owned 128)) (<= (mod owned 128) 9223372036854775807) (<= (- 9223372036854775808) (- (+ rows_scale_row owned) (mod owned 128))) (<= (- (+ rows_scale_row owned) (mod owned 128)) 9223372036854775807) (<= 0 (- (+ rows_scale_row owned) (mod owned 128))))))
(check-sat)

; index.no_wrap.quantize.few_padding_tile
; csrc/few_rows_kernel.cuh: no part of `tile_row * (words * kTileBlocks)` leaves its type, up to the
;   value 2,198,989,700,096.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tile_row Int)
(declare-const words Int)
(assert (<= 0 tile_row))
(assert (<= tile_row 4294901758))
(assert (<= 1 words))
(assert (<= words 128))
(assert (not (and (<= (- 2147483648) (* words 4)) (<= (* words 4) 2147483647) (<= (- 9223372036854775808) (* words 4)) (<= (* words 4) 9223372036854775807) (<= (- 9223372036854775808) (* tile_row (* words 4))) (<= (* tile_row (* words 4)) 9223372036854775807) (<= 0 (* tile_row (* words 4))))))
(check-sat)

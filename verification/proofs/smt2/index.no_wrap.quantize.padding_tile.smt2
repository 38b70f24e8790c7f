; index.no_wrap.quantize.padding_tile
; include/nvfp4_moe/quantize.h: no part of `tile_row * (scale_words(call.k) * kTileBlocks)` leaves
;   its type, up to the value 2,323,856,856,885,231,616.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_k Int)
(declare-const tile_row Int)
(assert (<= 16 call_k))
(assert (<= call_k 134217728))
(assert (<= 0 tile_row))
(assert (<= tile_row 277025324927))
(assert (not (and (<= (- 9223372036854775808) call_k) (<= call_k 9223372036854775807) (<= (- 9223372036854775808) (+ call_k 64)) (<= (+ call_k 64) 9223372036854775807) (<= (- 9223372036854775808) (- (+ call_k 64) 1)) (<= (- (+ call_k 64) 1) 9223372036854775807) (<= (- 9223372036854775808) (div (- (+ call_k 64) 1) 64)) (<= (div (- (+ call_k 64) 1) 64) 9223372036854775807) (<= 0 (- (+ call_k 64) 1)) (< 0 64) (<= (- 9223372036854775808) (* (div (- (+ call_k 64) 1) 64) 4)) (<= (* (div (- (+ call_k 64) 1) 64) 4) 9223372036854775807) (<= (- 9223372036854775808) (* tile_row (* (div (- (+ call_k 64) 1) 64) 4))) (<= (* tile_row (* (div (- (+ call_k 64) 1) 64) 4)) 9223372036854775807) (<= 0 (* tile_row (* (div (- (+ call_k 64) 1) 64) 4))))))
(check-sat)

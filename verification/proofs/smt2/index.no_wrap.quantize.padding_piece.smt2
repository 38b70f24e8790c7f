; index.no_wrap.quantize.padding_piece
; include/nvfp4_moe/quantize.h: no part of `place.tile_byte + int64_t{word} * (kTileRows *
;   kTileBlocks) + lane * kPieceBytes` leaves its type, up to the value 144,115,189,149,597,680.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const place_tile_byte Int)
(declare-const word Int)
(declare-const lane Int)
(assert (<= 0 place_tile_byte))
(assert (<= place_tile_byte 144115188075855872))
(assert (<= 0 word))
(assert (<= word 2097151))
(assert (<= 0 lane))
(assert (<= lane 31))
(assert (not (and (<= (- 9223372036854775808) word) (<= word 9223372036854775807) (<= (- 9223372036854775808) (* word 512)) (<= (* word 512) 9223372036854775807) (<= (- 9223372036854775808) (+ place_tile_byte (* word 512))) (<= (+ place_tile_byte (* word 512)) 9223372036854775807) (<= (- 2147483648) (* lane 16)) (<= (* lane 16) 2147483647) (<= (- 9223372036854775808) (* lane 16)) (<= (* lane 16) 9223372036854775807) (<= (- 9223372036854775808) (+ (+ place_tile_byte (* word 512)) (* lane 16))) (<= (+ (+ place_tile_byte (* word 512)) (* lane 16)) 9223372036854775807) (<= 0 (+ (+ place_tile_byte (* word 512)) (* lane 16))))))
(check-sat)

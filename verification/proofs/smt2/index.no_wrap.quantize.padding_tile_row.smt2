; index.no_wrap.quantize.padding_tile_row
; include/nvfp4_moe/quantize.h: no part of `owner.scale_row + owned - owned % kTileRows` leaves its
;   type, up to the value 277,025,324,800.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const owner_scale_row Int)
(declare-const owned Int)
(assert (<= 0 owner_scale_row))
(assert (<= owner_scale_row 274877906816))
(assert (<= 0 owned))
(assert (<= owned 2147418111))
(assert (not (and (<= (- 9223372036854775808) owned) (<= owned 9223372036854775807) (<= (- 9223372036854775808) (+ owner_scale_row owned)) (<= (+ owner_scale_row owned) 9223372036854775807) (<= (- 2147483648) (mod owned 128)) (<= (mod owned 128) 2147483647) (<= 0 owned) (< 0 128) (<= (- 9223372036854775808) (mod owned 128)) (<= (mod owned 128) 9223372036854775807) (<= (- 9223372036854775808) (- (+ owner_scale_row owned) (mod owned 128))) (<= (- (+ owner_scale_row owned) (mod owned 128)) 9223372036854775807) (<= 0 (- (+ owner_scale_row owned) (mod owned 128))))))
(check-sat)

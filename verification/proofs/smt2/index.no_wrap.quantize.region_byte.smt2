; index.no_wrap.quantize.region_byte
; include/nvfp4_moe/quantize.h: no part of `owner.scale_row * (words * kTileBlocks)` leaves its
;   type, up to the value 2,305,843,008,139,952,128.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const owner_scale_row Int)
(declare-const words Int)
(assert (<= 0 owner_scale_row))
(assert (<= owner_scale_row 274877906816))
(assert (<= 1 words))
(assert (<= words 2097152))
(assert (not (and (<= (- 9223372036854775808) (* words 4)) (<= (* words 4) 9223372036854775807) (<= (- 9223372036854775808) (* owner_scale_row (* words 4))) (<= (* owner_scale_row (* words 4)) 9223372036854775807) (<= 0 (* owner_scale_row (* words 4))))))
(check-sat)

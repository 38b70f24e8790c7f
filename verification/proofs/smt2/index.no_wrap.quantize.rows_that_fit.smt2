; index.no_wrap.quantize.rows_that_fit
; include/nvfp4_moe/quantize.h: no part of `left / kTileRows * kTileRows` leaves its type, up to the
;   value 144,115,188,075,855,872.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const left Int)
(assert (<= 0 left))
(assert (<= left 144115188075855872))
(assert (not (and (<= (- 9223372036854775808) (div left 128)) (<= (div left 128) 9223372036854775807) (<= 0 left) (< 0 128) (<= (- 9223372036854775808) (* (div left 128) 128)) (<= (* (div left 128) 128) 9223372036854775807) (<= 0 (* (div left 128) 128)))))
(check-sat)

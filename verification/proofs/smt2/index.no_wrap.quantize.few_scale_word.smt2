; index.no_wrap.quantize.few_scale_word
; csrc/few_rows_kernel.cuh: no part of `row_byte + block / kTileBlocks * (kTileRows * kTileBlocks)`
;   leaves its type, up to the value 144,115,188,075,920,896.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const row_byte Int)
(declare-const block Int)
(assert (<= 0 row_byte))
(assert (<= row_byte 144115188075855872))
(assert (<= 0 block))
(assert (<= block 511))
(assert (not (and (<= (- 2147483648) (div block 4)) (<= (div block 4) 2147483647) (<= 0 block) (< 0 4) (<= (- 2147483648) (* (div block 4) 512)) (<= (* (div block 4) 512) 2147483647) (<= (- 9223372036854775808) (* (div block 4) 512)) (<= (* (div block 4) 512) 9223372036854775807) (<= (- 9223372036854775808) (+ row_byte (* (div block 4) 512))) (<= (+ row_byte (* (div block 4) 512)) 9223372036854775807) (<= 0 (+ row_byte (* (div block 4) 512))))))
(check-sat)

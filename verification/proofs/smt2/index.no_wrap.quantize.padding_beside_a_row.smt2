; index.no_wrap.quantize.padding_beside_a_row
; include/nvfp4_moe/quantize.h: no part of `kPieceBytes + kTileBlocks * word` leaves its type, up to
;   the value 28.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const word Int)
(assert (<= 0 word))
(assert (<= word 3))
(assert (not (and (<= (- 2147483648) (* 4 word)) (<= (* 4 word) 2147483647) (<= (- 2147483648) (+ 16 (* 4 word))) (<= (+ 16 (* 4 word)) 2147483647) (<= 0 (+ 16 (* 4 word))))))
(check-sat)

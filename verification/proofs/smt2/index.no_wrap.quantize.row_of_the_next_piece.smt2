; index.no_wrap.quantize.row_of_the_next_piece
; include/nvfp4_moe/quantize.h: no part of `row + kTileLanes` leaves its type, up to the value
;   2,147,418,143.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const row Int)
(assert (<= 0 row))
(assert (<= row 2147418111))
(assert (not (and (<= (- 2147483648) (+ row 32)) (<= (+ row 32) 2147483647) (<= 0 (+ row 32)))))
(check-sat)

; index.no_wrap.quantize.rows_owned_of_a_tile
; include/nvfp4_moe/quantize.h: no part of `owned - (row - in_tile)` leaves its type, up to the
;   value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const owned Int)
(declare-const row Int)
(declare-const in_tile Int)
(assert (<= 1 owned))
(assert (<= owned 2147418111))
(assert (<= 0 row))
(assert (<= row (- owned 1)))
(assert (<= 0 in_tile))
(assert (<= in_tile (ite (<= row 127) row 127)))
(assert (not (and (<= (- 2147483648) (- row in_tile)) (<= (- row in_tile) 2147483647) (<= (- 2147483648) (- owned (- row in_tile))) (<= (- owned (- row in_tile)) 2147483647) (<= 0 (- owned (- row in_tile))))))
(check-sat)

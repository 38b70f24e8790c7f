; index.no_wrap.8x4_byte
; 8x4: tile*32 + place is below 2^31 exactly where tile is below 67108864.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const tile_number Int)
(declare-const place Int)
(assert (<= 0 tile_number))
(assert (and (<= 0 place) (< place 32)))
(assert (not (and (=> (< tile_number 67108864) (and (< (* tile_number 32) 2147483648) (< (+ (* tile_number 32) place) 2147483648))) (=> (< (+ (* tile_number 32) place) 2147483648) (< tile_number 67108864)))))
(check-sat)

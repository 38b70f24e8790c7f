; index.no_wrap.128x4_byte
; 128x4: tile*512 + place is below 2^31 exactly where tile is below 4194304.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const tile_number Int)
(declare-const place Int)
(assert (<= 0 tile_number))
(assert (and (<= 0 place) (< place 512)))
(assert (not (and (=> (< tile_number 4194304) (and (< (* tile_number 512) 2147483648) (< (+ (* tile_number 512) place) 2147483648))) (=> (< (+ (* tile_number 512) place) 2147483648) (< tile_number 4194304)))))
(check-sat)

; swizzle.injective.128x4_split
; 128x4: equal bytes tile*512 + place mean equal tile and equal place.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const place Int)
(declare-const other_place Int)
(declare-const tile_number Int)
(declare-const other_tile_number Int)
(assert (and (<= 0 place) (< place 512)))
(assert (and (<= 0 other_place) (< other_place 512)))
(assert (= (+ (* tile_number 512) place) (+ (* other_tile_number 512) other_place)))
(assert (not (and (= tile_number other_tile_number) (= place other_place))))
(check-sat)

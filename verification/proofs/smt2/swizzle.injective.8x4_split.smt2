; swizzle.injective.8x4_split
; 8x4: equal bytes tile*32 + place mean equal tile and equal place.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const place Int)
(declare-const other_place Int)
(declare-const tile_number Int)
(declare-const other_tile_number Int)
(assert (and (<= 0 place) (< place 32)))
(assert (and (<= 0 other_place) (< other_place 32)))
(assert (= (+ (* tile_number 32) place) (+ (* other_tile_number 32) other_place)))
(assert (not (and (= tile_number other_tile_number) (= place other_place))))
(check-sat)

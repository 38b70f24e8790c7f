; swizzle.in_bounds.8x4_expert
; 8x4: behind an expert's first tile, its bytes stay inside its own tiles, so that disjoint regions
;   of rows are disjoint regions of bytes.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const tile_number Int)
(declare-const tiles Int)
(declare-const place Int)
(declare-const first_tile Int)
(assert (and (<= 0 tile_number) (< tile_number tiles)))
(assert (and (<= 0 place) (< place 32)))
(assert (<= 0 first_tile))
(assert (not (and (<= (* first_tile 32) (+ (* first_tile 32) (+ (* tile_number 32) place))) (< (+ (* first_tile 32) (+ (* tile_number 32) place)) (* (+ first_tile tiles) 32)))))
(check-sat)

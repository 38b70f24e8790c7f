; swizzle.in_bounds.8x4_byte
; 8x4: a place in one of `tiles` tiles is one of 32*tiles bytes.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const tile_number Int)
(declare-const tiles Int)
(declare-const place Int)
(assert (and (<= 0 tile_number) (< tile_number tiles)))
(assert (and (<= 0 place) (< place 32)))
(assert (not (and (<= 0 (+ (* tile_number 32) place)) (< (+ (* tile_number 32) place) (* tiles 32)))))
(check-sat)

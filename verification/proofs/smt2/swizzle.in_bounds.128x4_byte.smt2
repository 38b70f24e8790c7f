; swizzle.in_bounds.128x4_byte
; 128x4: a place in one of `tiles` tiles is one of 512*tiles bytes.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const tile_number Int)
(declare-const tiles Int)
(declare-const place Int)
(assert (and (<= 0 tile_number) (< tile_number tiles)))
(assert (and (<= 0 place) (< place 512)))
(assert (not (and (<= 0 (+ (* tile_number 512) place)) (< (+ (* tile_number 512) place) (* tiles 512)))))
(check-sat)

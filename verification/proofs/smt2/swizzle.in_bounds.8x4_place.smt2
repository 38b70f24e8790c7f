; swizzle.in_bounds.8x4_place
; 8x4: the place inside a tile is one of 32 bytes.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const row Int)
(declare-const block Int)
(assert (<= 0 row))
(assert (<= 0 block))
(assert (not (and (<= 0 (+ (* (mod row 8) 4) (mod block 4))) (< (+ (* (mod row 8) 4) (mod block 4)) 32))))
(check-sat)

; swizzle.in_bounds.128x4_place
; 128x4: the place inside a tile is one of 512 bytes.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const row Int)
(declare-const block Int)
(assert (<= 0 row))
(assert (<= 0 block))
(assert (not (and (<= 0 (+ (+ (* (mod row 32) 16) (* (div (mod row 128) 32) 4)) (mod block 4))) (< (+ (+ (* (mod row 32) 16) (* (div (mod row 128) 32) 4)) (mod block 4)) 512))))
(check-sat)

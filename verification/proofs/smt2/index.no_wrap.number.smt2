; index.no_wrap.number
; In M rows of N columns with M*N <= limit, m*N and m*N + j stay below the limit (m*N + j < M*N by
;   swizzle.in_bounds.tile_number).
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const row Int)
(declare-const rows Int)
(declare-const column Int)
(declare-const columns Int)
(declare-const limit Int)
(assert (and (<= 0 row) (< row rows)))
(assert (and (<= 0 column) (< column columns)))
(assert (< (+ (* row columns) column) (* rows columns)))
(assert (<= (* rows columns) limit))
(assert (not (and (and (<= 0 (* row columns)) (< (* row columns) limit)) (and (<= 0 (+ (* row columns) column)) (< (+ (* row columns) column) limit)))))
(check-sat)

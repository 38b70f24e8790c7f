; swizzle.in_bounds.tile_number
; Tile m*N + j with m < M and j < N is one of M*N tiles.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tile_row Int)
(declare-const row_tiles Int)
(declare-const tile_column Int)
(declare-const column_tiles Int)
(assert (and (<= 0 tile_row) (< tile_row row_tiles)))
(assert (and (<= 0 tile_column) (< tile_column column_tiles)))
(assert (not (and (<= 0 (+ (* tile_row column_tiles) tile_column)) (< (+ (* tile_row column_tiles) tile_column) (* row_tiles column_tiles)))))
(check-sat)

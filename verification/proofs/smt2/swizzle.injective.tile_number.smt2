; swizzle.injective.tile_number
; Tile numbers m*N + j with 0 <= j < N are equal only for equal m and j, for every N.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tile_column Int)
(declare-const column_tiles Int)
(declare-const other_tile_column Int)
(declare-const tile_row Int)
(declare-const other_tile_row Int)
(assert (and (<= 0 tile_column) (< tile_column column_tiles)))
(assert (and (<= 0 other_tile_column) (< other_tile_column column_tiles)))
(assert (= (+ (* tile_row column_tiles) tile_column) (+ (* other_tile_row column_tiles) other_tile_column)))
(assert (not (and (= tile_row other_tile_row) (= tile_column other_tile_column))))
(check-sat)

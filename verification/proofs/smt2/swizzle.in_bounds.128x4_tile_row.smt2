; swizzle.in_bounds.128x4_tile_row
; 128x4: a row below R lies in one of ceil(R/128) tile rows.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const row Int)
(declare-const rows Int)
(declare-const row_tiles Int)
(assert (and (<= 0 row) (< row rows)))
(assert (and (< (* (- row_tiles 1) 128) rows) (<= rows (* row_tiles 128))))
(assert (not (and (<= 0 (div row 128)) (< (div row 128) row_tiles))))
(check-sat)

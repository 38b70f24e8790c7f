; swizzle.in_bounds.8x4_tile_row
; 8x4: a row below R lies in one of ceil(R/8) tile rows.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const row Int)
(declare-const rows Int)
(declare-const row_tiles Int)
(assert (and (<= 0 row) (< row rows)))
(assert (and (< (* (- row_tiles 1) 8) rows) (<= rows (* row_tiles 8))))
(assert (not (and (<= 0 (div row 8)) (< (div row 8) row_tiles))))
(check-sat)

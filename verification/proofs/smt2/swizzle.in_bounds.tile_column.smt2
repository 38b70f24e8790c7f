; swizzle.in_bounds.tile_column
; A block below C lies in one of ceil(C/4) tile columns.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const block Int)
(declare-const blocks Int)
(declare-const column_tiles Int)
(assert (and (<= 0 block) (< block blocks)))
(assert (and (< (* (- column_tiles 1) 4) blocks) (<= blocks (* column_tiles 4))))
(assert (not (and (<= 0 (div block 4)) (< (div block 4) column_tiles))))
(check-sat)

; index.no_wrap.128x4_bits_tile
; 128x4, any number of tile columns, 32-bit vectors: where the true tile number m*N + j (64 bits) is
;   below 4194304, the 32-bit one equals it.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const tile_row (_ BitVec 32))
(declare-const tile_column (_ BitVec 32))
(declare-const columns (_ BitVec 32))
(assert (bvsle (_ bv0 32) tile_row))
(assert (bvsle (_ bv0 32) tile_column))
(assert (bvsle (_ bv0 32) columns))
(assert (bvslt (bvadd (bvmul ((_ sign_extend 32) tile_row) ((_ sign_extend 32) columns)) ((_ sign_extend 32) tile_column)) (_ bv4194304 64)))
(assert (not (= ((_ sign_extend 32) (bvadd (bvmul tile_row columns) tile_column)) (bvadd (bvmul ((_ sign_extend 32) tile_row) ((_ sign_extend 32) columns)) ((_ sign_extend 32) tile_column)))))
(check-sat)

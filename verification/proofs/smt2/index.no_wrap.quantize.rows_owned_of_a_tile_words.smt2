; index.no_wrap.quantize.rows_owned_of_a_tile_words
; include/nvfp4_moe/quantize.h: no part of `owned - (row - in_tile)` leaves its type, up to the
;   value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const owned (_ BitVec 32))
(declare-const row (_ BitVec 32))
(declare-const in_tile (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) owned)))
(assert (bvsle ((_ sign_extend 32) owned) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (bvsub ((_ sign_extend 32) owned) (_ bv1 64))))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) in_tile)))
(assert (bvsle ((_ sign_extend 32) in_tile) (ite (bvsle ((_ sign_extend 32) row) (_ bv127 64)) ((_ sign_extend 32) row) (_ bv127 64))))
(assert (not (and (not (bvssubo row in_tile)) (not (bvssubo owned (bvsub row in_tile))) (bvsle (_ bv0 32) (bvsub owned (bvsub row in_tile))))))
(check-sat)

; index.no_wrap.quantize.padding_tile_row_words
; include/nvfp4_moe/quantize.h: no part of `owner.scale_row + owned - owned % kTileRows` leaves its
;   type, up to the value 277,025,324,800.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const owner_scale_row (_ BitVec 64))
(declare-const owned (_ BitVec 32))
(assert (bvsle (_ bv0 64) owner_scale_row))
(assert (bvsle owner_scale_row (_ bv274877906816 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) owned)))
(assert (bvsle ((_ sign_extend 32) owned) (_ bv2147418111 64)))
(assert (not (and (not (bvsaddo owner_scale_row ((_ sign_extend 32) owned))) (bvsle (_ bv0 32) owned) (bvsle (_ bv0 32) (_ bv128 32)) (not (= (_ bv128 32) (_ bv0 32))) (not (bvssubo (bvadd owner_scale_row ((_ sign_extend 32) owned)) ((_ sign_extend 32) (bvurem owned (_ bv128 32))))) (bvsle (_ bv0 64) (bvsub (bvadd owner_scale_row ((_ sign_extend 32) owned)) ((_ sign_extend 32) (bvurem owned (_ bv128 32))))))))
(check-sat)

; index.no_wrap.quantize.few_padding_tile_row_words
; csrc/few_rows_kernel.cuh: no part of `int64_t{rows.scale_row} + owned - owned % kTileRows` leaves
;   its type, up to the value 4,294,901,631.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const rows_scale_row (_ BitVec 32))
(declare-const owned (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) rows_scale_row)))
(assert (bvsle ((_ sign_extend 32) rows_scale_row) (_ bv2147483647 64)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) owned)))
(assert (bvsle ((_ sign_extend 32) owned) (_ bv2147418111 64)))
(assert (not (and (not (bvsaddo ((_ sign_extend 32) rows_scale_row) ((_ sign_extend 32) owned))) (bvsle (_ bv0 32) owned) (bvsle (_ bv0 32) (_ bv128 32)) (not (= (_ bv128 32) (_ bv0 32))) (not (bvssubo (bvadd ((_ sign_extend 32) rows_scale_row) ((_ sign_extend 32) owned)) ((_ sign_extend 32) (bvurem owned (_ bv128 32))))) (bvsle (_ bv0 64) (bvsub (bvadd ((_ sign_extend 32) rows_scale_row) ((_ sign_extend 32) owned)) ((_ sign_extend 32) (bvurem owned (_ bv128 32))))))))
(check-sat)

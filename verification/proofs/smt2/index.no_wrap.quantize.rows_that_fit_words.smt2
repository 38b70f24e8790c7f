; index.no_wrap.quantize.rows_that_fit_words
; include/nvfp4_moe/quantize.h: no part of `left / kTileRows * kTileRows` leaves its type, up to the
;   value 144,115,188,075,855,872.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const left (_ BitVec 64))
(assert (bvsle (_ bv0 64) left))
(assert (bvsle left (_ bv144115188075855872 64)))
(assert (not (and (bvsle (_ bv0 64) left) (bvsle (_ bv0 64) (_ bv128 64)) (not (= (_ bv128 64) (_ bv0 64))) (not (bvsmulo (bvudiv left (_ bv128 64)) (_ bv128 64))) (bvsle (_ bv0 64) (bvmul (bvudiv left (_ bv128 64)) (_ bv128 64))))))
(check-sat)

; index.no_wrap.quantize.padding_tile_words
; include/nvfp4_moe/quantize.h: no part of `tile_row * (scale_words(call.k) * kTileBlocks)` leaves
;   its type, up to the value 2,323,856,856,885,231,616.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_k (_ BitVec 32))
(declare-const tile_row (_ BitVec 64))
(assert (bvsle (_ bv16 64) ((_ sign_extend 32) call_k)))
(assert (bvsle ((_ sign_extend 32) call_k) (_ bv134217728 64)))
(assert (bvsle (_ bv0 64) tile_row))
(assert (bvsle tile_row (_ bv277025324927 64)))
(assert (not (and (not (bvsaddo ((_ sign_extend 32) call_k) (_ bv64 64))) (not (bvssubo (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64))) (bvsle (_ bv0 64) (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64))) (bvsle (_ bv0 64) (_ bv64 64)) (not (= (_ bv64 64) (_ bv0 64))) (not (bvsmulo (bvudiv (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64))) (not (bvsmulo tile_row (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)))) (bvsle (_ bv0 64) (bvmul tile_row (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)))))))
(check-sat)

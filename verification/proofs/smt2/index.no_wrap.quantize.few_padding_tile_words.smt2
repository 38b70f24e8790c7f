; index.no_wrap.quantize.few_padding_tile_words
; csrc/few_rows_kernel.cuh: no part of `tile_row * (words * kTileBlocks)` leaves its type, up to the
;   value 2,198,989,700,096.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const tile_row (_ BitVec 64))
(declare-const words (_ BitVec 32))
(assert (bvsle (_ bv0 64) tile_row))
(assert (bvsle tile_row (_ bv4294901758 64)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) words)))
(assert (bvsle ((_ sign_extend 32) words) (_ bv128 64)))
(assert (not (and (not (bvsmulo words (_ bv4 32))) (not (bvsmulo tile_row ((_ sign_extend 32) (bvmul words (_ bv4 32))))) (bvsle (_ bv0 64) (bvmul tile_row ((_ sign_extend 32) (bvmul words (_ bv4 32))))))))
(check-sat)

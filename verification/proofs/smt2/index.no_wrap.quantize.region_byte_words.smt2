; index.no_wrap.quantize.region_byte_words
; include/nvfp4_moe/quantize.h: no part of `owner.scale_row * (words * kTileBlocks)` leaves its
;   type, up to the value 2,305,843,008,139,952,128.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const owner_scale_row (_ BitVec 64))
(declare-const words (_ BitVec 64))
(assert (bvsle (_ bv0 64) owner_scale_row))
(assert (bvsle owner_scale_row (_ bv274877906816 64)))
(assert (bvsle (_ bv1 64) words))
(assert (bvsle words (_ bv2097152 64)))
(assert (not (and (not (bvsmulo words (_ bv4 64))) (not (bvsmulo owner_scale_row (bvmul words (_ bv4 64)))) (bvsle (_ bv0 64) (bvmul owner_scale_row (bvmul words (_ bv4 64)))))))
(check-sat)

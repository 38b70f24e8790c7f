; index.no_wrap.quantize.padding_piece_words
; include/nvfp4_moe/quantize.h: no part of `place.tile_byte + int64_t{word} * (kTileRows *
;   kTileBlocks) + lane * kPieceBytes` leaves its type, up to the value 144,115,189,149,597,680.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const place_tile_byte (_ BitVec 64))
(declare-const word (_ BitVec 32))
(declare-const lane (_ BitVec 32))
(assert (bvsle (_ bv0 64) place_tile_byte))
(assert (bvsle place_tile_byte (_ bv144115188075855872 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) word)))
(assert (bvsle ((_ sign_extend 32) word) (_ bv2097151 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) lane)))
(assert (bvsle ((_ sign_extend 32) lane) (_ bv31 64)))
(assert (not (and (not (bvsmulo ((_ sign_extend 32) word) (_ bv512 64))) (not (bvsaddo place_tile_byte (bvmul ((_ sign_extend 32) word) (_ bv512 64)))) (not (bvsmulo lane (_ bv16 32))) (not (bvsaddo (bvadd place_tile_byte (bvmul ((_ sign_extend 32) word) (_ bv512 64))) ((_ sign_extend 32) (bvmul lane (_ bv16 32))))) (bvsle (_ bv0 64) (bvadd (bvadd place_tile_byte (bvmul ((_ sign_extend 32) word) (_ bv512 64))) ((_ sign_extend 32) (bvmul lane (_ bv16 32))))))))
(check-sat)

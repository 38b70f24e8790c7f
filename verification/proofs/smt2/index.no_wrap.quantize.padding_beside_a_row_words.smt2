; index.no_wrap.quantize.padding_beside_a_row_words
; include/nvfp4_moe/quantize.h: no part of `kPieceBytes + kTileBlocks * word` leaves its type, up to
;   the value 28.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const word (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) word)))
(assert (bvsle ((_ sign_extend 32) word) (_ bv3 64)))
(assert (not (and (not (bvsmulo (_ bv4 32) word)) (not (bvsaddo (_ bv16 32) (bvmul (_ bv4 32) word))) (bvsle (_ bv0 32) (bvadd (_ bv16 32) (bvmul (_ bv4 32) word))))))
(check-sat)

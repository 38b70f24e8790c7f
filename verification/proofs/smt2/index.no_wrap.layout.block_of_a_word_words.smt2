; index.no_wrap.layout.block_of_a_word_words
; include/nvfp4_moe/swizzle.h: no part of `word * kTileBlocks + i` leaves its type, up to the value
;   134,217,727.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const word (_ BitVec 64))
(declare-const i (_ BitVec 32))
(assert (bvsle (_ bv0 64) word))
(assert (bvsle word (_ bv33554431 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) i)))
(assert (bvsle ((_ sign_extend 32) i) (_ bv3 64)))
(assert (not (and (not (bvsmulo word (_ bv4 64))) (not (bvsaddo (bvmul word (_ bv4 64)) ((_ sign_extend 32) i))) (bvsle (_ bv0 64) (bvadd (bvmul word (_ bv4 64)) ((_ sign_extend 32) i))))))
(check-sat)

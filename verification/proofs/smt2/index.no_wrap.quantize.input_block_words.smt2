; index.no_wrap.quantize.input_block_words
; include/nvfp4_moe/quantize.h: no part of `block * kBlockSize` leaves its type, up to the value
;   134,217,712.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_k (_ BitVec 32))
(declare-const block (_ BitVec 64))
(assert (bvsle (_ bv16 64) ((_ sign_extend 32) call_k)))
(assert (bvsle ((_ sign_extend 32) call_k) (_ bv134217728 64)))
(assert (bvsle (_ bv0 64) block))
(assert (bvsle block (bvsub (bvudiv ((_ sign_extend 32) call_k) (_ bv16 64)) (_ bv1 64))))
(assert (not (and (not (bvsmulo block (_ bv16 64))) (bvsle (_ bv0 64) (bvmul block (_ bv16 64))))))
(check-sat)

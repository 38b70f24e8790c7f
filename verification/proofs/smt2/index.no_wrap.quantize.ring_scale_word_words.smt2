; index.no_wrap.quantize.ring_scale_word_words
; csrc/quantize_kernel.cuh: no part of `block / kTileBlocks * (kTileRows * kTileBlocks) + 4 * place`
;   leaves its type, up to the value 1,342,177,292.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const block (_ BitVec 32))
(declare-const place (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) block)))
(assert (bvsle ((_ zero_extend 32) block) (_ bv10485760 64)))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) place)))
(assert (bvsle ((_ zero_extend 32) place) (_ bv3 64)))
(assert (not (and (not (= (_ bv4 32) (_ bv0 32))) (not (bvumulo (bvudiv block (_ bv4 32)) (_ bv512 32))) (not (bvumulo (_ bv4 32) place)) (not (bvuaddo (bvmul (bvudiv block (_ bv4 32)) (_ bv512 32)) (bvmul (_ bv4 32) place))))))
(check-sat)

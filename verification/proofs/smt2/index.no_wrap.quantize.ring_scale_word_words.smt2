; index.no_wrap.quantize.ring_scale_word_words
; csrc/quantize_kernel.cuh: no part of `static_cast<uint32_t>(block / kTileBlocks * (kTileRows *
;   kTileBlocks))` leaves its type, up to the value 1,342,177,280.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const block (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) block)))
(assert (bvsle ((_ sign_extend 32) block) (_ bv10485760 64)))
(assert (not (and (bvsle (_ bv0 32) block) (bvsle (_ bv0 32) (_ bv4 32)) (not (= (_ bv4 32) (_ bv0 32))) (not (bvsmulo (bvudiv block (_ bv4 32)) (_ bv512 32))) (bvsle (_ bv0 32) (bvmul (bvudiv block (_ bv4 32)) (_ bv512 32))))))
(check-sat)

; index.no_wrap.quantize.ring_input_block_words
; csrc/quantize_kernel.cuh: no part of `first_block * kBlockSize` leaves its type, up to the value
;   167,772,160.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const first_block (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first_block)))
(assert (bvsle ((_ sign_extend 32) first_block) (_ bv10485760 64)))
(assert (not (and (not (bvsmulo first_block (_ bv16 32))) (bvsle (_ bv0 32) (bvmul first_block (_ bv16 32))))))
(check-sat)

; index.no_wrap.quantize.ring_padding_step_words
; csrc/quantize_kernel.cuh: no part of `piece + splits * threads` leaves its type, up to the value
;   75,497,471.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const splits (_ BitVec 32))
(declare-const threads (_ BitVec 32))
(declare-const piece (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) splits)))
(assert (bvsle ((_ sign_extend 32) splits) (_ bv32768 64)))
(assert (bvsle (_ bv32 64) ((_ sign_extend 32) threads)))
(assert (bvsle ((_ sign_extend 32) threads) (_ bv256 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) piece)))
(assert (bvsle ((_ sign_extend 32) piece) (_ bv67108863 64)))
(assert (not (and (not (bvsmulo splits threads)) (not (bvsaddo piece (bvmul splits threads))) (bvsle (_ bv0 32) (bvadd piece (bvmul splits threads))))))
(check-sat)

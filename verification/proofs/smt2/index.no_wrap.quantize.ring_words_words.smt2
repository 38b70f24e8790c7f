; index.no_wrap.quantize.ring_words_words
; csrc/quantize_kernel.cuh: no part of `(call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize *
;   kTileBlocks)` leaves its type, up to the value 2,097,152.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_k (_ BitVec 32))
(assert (bvsle (_ bv16 64) ((_ sign_extend 32) call_k)))
(assert (bvsle ((_ sign_extend 32) call_k) (_ bv134217728 64)))
(assert (not (and (not (bvsaddo call_k (_ bv64 32))) (not (bvssubo (bvadd call_k (_ bv64 32)) (_ bv1 32))) (bvsle (_ bv0 32) (bvsub (bvadd call_k (_ bv64 32)) (_ bv1 32))) (bvsle (_ bv0 32) (_ bv64 32)) (not (= (_ bv64 32) (_ bv0 32))) (bvsle (_ bv0 32) (bvudiv (bvsub (bvadd call_k (_ bv64 32)) (_ bv1 32)) (_ bv64 32))))))
(check-sat)

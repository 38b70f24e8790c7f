; index.no_wrap.quantize.ring_padding_pieces_words
; csrc/quantize_kernel.cuh: no part of `(call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize *
;   kTileBlocks) * lanes` leaves its type, up to the value 67,108,864.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_k (_ BitVec 32))
(declare-const lanes (_ BitVec 32))
(assert (bvsle (_ bv16 64) ((_ sign_extend 32) call_k)))
(assert (bvsle ((_ sign_extend 32) call_k) (_ bv134217728 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) lanes)))
(assert (bvsle ((_ sign_extend 32) lanes) (_ bv32 64)))
(assert (not (and (not (bvsaddo call_k (_ bv64 32))) (not (bvssubo (bvadd call_k (_ bv64 32)) (_ bv1 32))) (bvsle (_ bv0 32) (bvsub (bvadd call_k (_ bv64 32)) (_ bv1 32))) (bvsle (_ bv0 32) (_ bv64 32)) (not (= (_ bv64 32) (_ bv0 32))) (not (bvsmulo (bvudiv (bvsub (bvadd call_k (_ bv64 32)) (_ bv1 32)) (_ bv64 32)) lanes)) (bvsle (_ bv0 32) (bvmul (bvudiv (bvsub (bvadd call_k (_ bv64 32)) (_ bv1 32)) (_ bv64 32)) lanes)))))
(check-sat)

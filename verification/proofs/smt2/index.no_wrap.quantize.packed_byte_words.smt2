; index.no_wrap.quantize.packed_byte_words
; include/nvfp4_moe/quantize.h: no part of `row * (call.k / 2) + block * (kBlockSize / 2)` leaves
;   its type, up to the value 144,110,790,029,344,760.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_k (_ BitVec 32))
(declare-const row (_ BitVec 64))
(declare-const block (_ BitVec 64))
(assert (bvsle (_ bv16 64) ((_ sign_extend 32) call_k)))
(assert (bvsle ((_ sign_extend 32) call_k) (_ bv134217728 64)))
(assert (bvsle (_ bv0 64) row))
(assert (bvsle row (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) block))
(assert (bvsle block (bvsub (bvudiv ((_ sign_extend 32) call_k) (_ bv16 64)) (_ bv1 64))))
(assert (not (and (bvsle (_ bv0 32) call_k) (bvsle (_ bv0 32) (_ bv2 32)) (not (= (_ bv2 32) (_ bv0 32))) (not (bvsmulo row ((_ sign_extend 32) (bvudiv call_k (_ bv2 32))))) (not (bvsmulo block (_ bv8 64))) (not (bvsaddo (bvmul row ((_ sign_extend 32) (bvudiv call_k (_ bv2 32)))) (bvmul block (_ bv8 64)))) (bvsle (_ bv0 64) (bvadd (bvmul row ((_ sign_extend 32) (bvudiv call_k (_ bv2 32)))) (bvmul block (_ bv8 64)))))))
(check-sat)

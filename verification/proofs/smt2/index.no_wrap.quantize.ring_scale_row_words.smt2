; index.no_wrap.quantize.ring_scale_row_words
; csrc/quantize_kernel.cuh: no part of `row_byte_128x4(static_cast<uint32_t>(row_in_expert),
;   static_cast<uint32_t>(words))` leaves its type, up to the value 18,013,847,679,926,780.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const words (_ BitVec 32))
(declare-const row_in_expert (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) words)))
(assert (bvsle ((_ sign_extend 32) words) (_ bv2097152 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row_in_expert)))
(assert (bvsle ((_ sign_extend 32) row_in_expert) (_ bv2147418111 64)))
(assert (not (and (bvsle (_ bv0 32) row_in_expert) (not (= (_ bv128 32) (_ bv0 32))) (not (bvusubo row_in_expert (bvurem row_in_expert (_ bv128 32)))) (bvsle (_ bv0 32) words) (not (bvumulo words (_ bv4 32))) (not (bvsmulo ((_ zero_extend 32) (bvsub row_in_expert (bvurem row_in_expert (_ bv128 32)))) ((_ zero_extend 32) (bvmul words (_ bv4 32))))) (not (= (_ bv32 32) (_ bv0 32))) (not (bvumulo (bvurem (bvurem row_in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32))) (not (bvuaddo (bvmul (bvurem (bvurem row_in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32)) (bvudiv (bvurem row_in_expert (_ bv128 32)) (_ bv32 32)))) (not (bvumulo (bvadd (bvmul (bvurem (bvurem row_in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32)) (bvudiv (bvurem row_in_expert (_ bv128 32)) (_ bv32 32))) (_ bv4 32))) (not (bvsaddo (bvmul ((_ zero_extend 32) (bvsub row_in_expert (bvurem row_in_expert (_ bv128 32)))) ((_ zero_extend 32) (bvmul words (_ bv4 32)))) ((_ zero_extend 32) (bvmul (bvadd (bvmul (bvurem (bvurem row_in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32)) (bvudiv (bvurem row_in_expert (_ bv128 32)) (_ bv32 32))) (_ bv4 32))))) (bvsle (_ bv0 64) (bvadd (bvmul ((_ zero_extend 32) (bvsub row_in_expert (bvurem row_in_expert (_ bv128 32)))) ((_ zero_extend 32) (bvmul words (_ bv4 32)))) ((_ zero_extend 32) (bvmul (bvadd (bvmul (bvurem (bvurem row_in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32)) (bvudiv (bvurem row_in_expert (_ bv128 32)) (_ bv32 32))) (_ bv4 32))))))))
(check-sat)

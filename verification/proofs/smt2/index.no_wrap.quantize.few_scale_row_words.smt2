; index.no_wrap.quantize.few_scale_row_words
; csrc/few_rows_kernel.cuh: no part of `region_byte(owner, words) +
;   row_byte_128x4(static_cast<uint32_t>(in_expert), static_cast<uint32_t>(words))` leaves its type,
;   up to the value 1,099,519,950,844.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const owner_scale_row (_ BitVec 64))
(declare-const words (_ BitVec 32))
(declare-const in_expert (_ BitVec 32))
(assert (bvsle (_ bv0 64) owner_scale_row))
(assert (bvsle owner_scale_row (_ bv2147483647 64)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) words)))
(assert (bvsle ((_ sign_extend 32) words) (_ bv128 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) in_expert)))
(assert (bvsle ((_ sign_extend 32) in_expert) (_ bv16383 64)))
(assert (not (and (not (bvsmulo ((_ sign_extend 32) words) (_ bv4 64))) (not (bvsmulo owner_scale_row (bvmul ((_ sign_extend 32) words) (_ bv4 64)))) (bvsle (_ bv0 32) in_expert) (not (= (_ bv128 32) (_ bv0 32))) (not (bvusubo in_expert (bvurem in_expert (_ bv128 32)))) (bvsle (_ bv0 32) words) (not (bvumulo words (_ bv4 32))) (not (bvsmulo ((_ zero_extend 32) (bvsub in_expert (bvurem in_expert (_ bv128 32)))) ((_ zero_extend 32) (bvmul words (_ bv4 32))))) (not (= (_ bv32 32) (_ bv0 32))) (not (bvumulo (bvurem (bvurem in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32))) (not (bvuaddo (bvmul (bvurem (bvurem in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32)) (bvudiv (bvurem in_expert (_ bv128 32)) (_ bv32 32)))) (not (bvumulo (bvadd (bvmul (bvurem (bvurem in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32)) (bvudiv (bvurem in_expert (_ bv128 32)) (_ bv32 32))) (_ bv4 32))) (not (bvsaddo (bvmul ((_ zero_extend 32) (bvsub in_expert (bvurem in_expert (_ bv128 32)))) ((_ zero_extend 32) (bvmul words (_ bv4 32)))) ((_ zero_extend 32) (bvmul (bvadd (bvmul (bvurem (bvurem in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32)) (bvudiv (bvurem in_expert (_ bv128 32)) (_ bv32 32))) (_ bv4 32))))) (not (bvsaddo (bvmul owner_scale_row (bvmul ((_ sign_extend 32) words) (_ bv4 64))) (bvadd (bvmul ((_ zero_extend 32) (bvsub in_expert (bvurem in_expert (_ bv128 32)))) ((_ zero_extend 32) (bvmul words (_ bv4 32)))) ((_ zero_extend 32) (bvmul (bvadd (bvmul (bvurem (bvurem in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32)) (bvudiv (bvurem in_expert (_ bv128 32)) (_ bv32 32))) (_ bv4 32)))))) (bvsle (_ bv0 64) (bvadd (bvmul owner_scale_row (bvmul ((_ sign_extend 32) words) (_ bv4 64))) (bvadd (bvmul ((_ zero_extend 32) (bvsub in_expert (bvurem in_expert (_ bv128 32)))) ((_ zero_extend 32) (bvmul words (_ bv4 32)))) ((_ zero_extend 32) (bvmul (bvadd (bvmul (bvurem (bvurem in_expert (_ bv128 32)) (_ bv32 32)) (_ bv4 32)) (bvudiv (bvurem in_expert (_ bv128 32)) (_ bv32 32))) (_ bv4 32)))))))))
(check-sat)

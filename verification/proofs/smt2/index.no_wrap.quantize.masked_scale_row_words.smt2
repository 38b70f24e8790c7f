; index.no_wrap.quantize.masked_scale_row_words
; include/nvfp4_moe/quantize.h: no part of `expert * round_up(call.rows_per_expert, kTileRows)`
;   leaves its type, up to the value 274,869,518,080.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_experts (_ BitVec 32))
(declare-const call_rows_per_expert (_ BitVec 64))
(declare-const expert (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) call_experts)))
(assert (bvsle ((_ sign_extend 32) call_experts) (_ bv2147483646 64)))
(assert (bvsle (_ bv0 64) call_rows_per_expert))
(assert (bvsle call_rows_per_expert (_ bv2147483647 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) expert)))
(assert (bvsle ((_ sign_extend 32) expert) (bvsub ((_ sign_extend 32) call_experts) (_ bv1 64))))
(assert (bvsle (bvmul ((_ sign_extend 32) call_experts) call_rows_per_expert) (_ bv2147418111 64)))
(assert (not (and (not (bvsaddo call_rows_per_expert (_ bv128 64))) (not (bvssubo (bvadd call_rows_per_expert (_ bv128 64)) (_ bv1 64))) (bvsle (_ bv0 64) (bvsub (bvadd call_rows_per_expert (_ bv128 64)) (_ bv1 64))) (bvsle (_ bv0 64) (_ bv128 64)) (not (= (_ bv128 64) (_ bv0 64))) (not (bvsmulo (bvudiv (bvsub (bvadd call_rows_per_expert (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64))) (not (bvsmulo ((_ sign_extend 32) expert) (bvmul (bvudiv (bvsub (bvadd call_rows_per_expert (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64)))) (bvsle (_ bv0 64) (bvmul ((_ sign_extend 32) expert) (bvmul (bvudiv (bvsub (bvadd call_rows_per_expert (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64)))))))
(check-sat)

; index.no_wrap.quantize.masked_next_row_words
; include/nvfp4_moe/quantize.h: no part of `static_cast<int32_t>(first + call.rows_per_expert)`
;   leaves its type, up to the value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const first (_ BitVec 32))
(declare-const call_rows_per_expert (_ BitVec 64))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) call_rows_per_expert))
(assert (bvsle call_rows_per_expert (bvsub (_ bv2147418111 64) ((_ sign_extend 32) first))))
(assert (not (and (not (bvsaddo ((_ sign_extend 32) first) call_rows_per_expert)) (= ((_ sign_extend 32) ((_ extract 31 0) (bvadd ((_ sign_extend 32) first) call_rows_per_expert))) (bvadd ((_ sign_extend 32) first) call_rows_per_expert)) (bvsle (_ bv0 32) ((_ extract 31 0) (bvadd ((_ sign_extend 32) first) call_rows_per_expert))))))
(check-sat)

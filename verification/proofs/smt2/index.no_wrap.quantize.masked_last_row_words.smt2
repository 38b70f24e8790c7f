; index.no_wrap.quantize.masked_last_row_words
; include/nvfp4_moe/quantize.h: no part of `first + owned` leaves its type, up to the value
;   2,147,418,111.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const first (_ BitVec 32))
(declare-const owned (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) owned)))
(assert (bvsle ((_ sign_extend 32) owned) (bvsub (_ bv2147418111 64) ((_ sign_extend 32) first))))
(assert (not (and (not (bvsaddo first owned)) (bvsle (_ bv0 32) (bvadd first owned)))))
(check-sat)

; index.no_wrap.quantize.rows_of_an_owner_words
; include/nvfp4_moe/quantize.h: no part of `end - first` leaves its type, up to the value
;   2,147,418,111.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const end (_ BitVec 32))
(declare-const first (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) end)))
(assert (bvsle ((_ sign_extend 32) end) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) ((_ sign_extend 32) end)))
(assert (not (and (not (bvssubo end first)) (bvsle (_ bv0 32) (bvsub end first)))))
(check-sat)

; index.no_wrap.quantize.clipped_end_words
; include/nvfp4_moe/quantize.h: no part of `static_cast<int32_t>(first + fitting)` leaves its type,
;   up to the value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const end (_ BitVec 32))
(declare-const first (_ BitVec 32))
(declare-const fitting (_ BitVec 64))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) end)))
(assert (bvsle ((_ sign_extend 32) end) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) ((_ sign_extend 32) end)))
(assert (bvsle (_ bv0 64) fitting))
(assert (bvsle fitting (bvsub ((_ sign_extend 32) end) ((_ sign_extend 32) first))))
(assert (not (and (not (bvsaddo ((_ sign_extend 32) first) fitting)) (= ((_ sign_extend 32) ((_ extract 31 0) (bvadd ((_ sign_extend 32) first) fitting))) (bvadd ((_ sign_extend 32) first) fitting)) (bvsle (_ bv0 32) ((_ extract 31 0) (bvadd ((_ sign_extend 32) first) fitting))))))
(check-sat)

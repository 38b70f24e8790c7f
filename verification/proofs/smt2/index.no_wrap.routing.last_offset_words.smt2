; index.no_wrap.routing.last_offset_words
; include/nvfp4_moe/routing.h: no part of `offset + count` leaves its type, up to the value
;   2,147,417,984.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const offset (_ BitVec 32))
(declare-const count (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) offset)))
(assert (bvsle ((_ sign_extend 32) offset) (_ bv2147417984 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) count)))
(assert (bvsle ((_ sign_extend 32) count) (bvsub (_ bv2147417984 64) ((_ sign_extend 32) offset))))
(assert (not (and (not (bvsaddo offset count)) (bvsle (_ bv0 32) (bvadd offset count)))))
(check-sat)

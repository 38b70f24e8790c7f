; index.no_wrap.routing.segment_end_words
; include/nvfp4_moe/routing.h: no part of `first + length` leaves its type, up to the value
;   4,294,901,663.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const first (_ BitVec 64))
(declare-const length (_ BitVec 64))
(assert (bvsle (_ bv0 64) first))
(assert (bvsle first (_ bv2147417984 64)))
(assert (bvsle (_ bv0 64) length))
(assert (bvsle length (_ bv2147483679 64)))
(assert (not (and (not (bvsaddo first length)) (bvsle (_ bv0 64) (bvadd first length)))))
(check-sat)

; index.no_wrap.routing.position_words
; csrc/routing_kernel.cuh: no part of `start + earlier + ranked.rank` leaves its type, up to the
;   value 2,147,417,984.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const start (_ BitVec 32))
(declare-const earlier (_ BitVec 32))
(declare-const ranked_rank (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) start)))
(assert (bvsle ((_ sign_extend 32) start) (_ bv2147417984 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) earlier)))
(assert (bvsle ((_ sign_extend 32) earlier) (bvsub (_ bv2147417984 64) ((_ sign_extend 32) start))))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) ranked_rank)))
(assert (bvsle ((_ sign_extend 32) ranked_rank) (bvsub (bvsub (_ bv2147417984 64) ((_ sign_extend 32) start)) ((_ sign_extend 32) earlier))))
(assert (not (and (not (bvsaddo start earlier)) (not (bvsaddo (bvadd start earlier) ranked_rank)) (bvsle (_ bv0 32) (bvadd (bvadd start earlier) ranked_rank)))))
(check-sat)

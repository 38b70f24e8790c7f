; index.no_wrap.routing.staged_word_words
; csrc/routing_kernel.cuh: no part of `ranked.expert * 65536 + ranked.rank` leaves its type, up to
;   the value 2,147,450,879.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const ranked_expert (_ BitVec 32))
(declare-const ranked_rank (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) ranked_expert)))
(assert (bvsle ((_ sign_extend 32) ranked_expert) (_ bv32767 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) ranked_rank)))
(assert (bvsle ((_ sign_extend 32) ranked_rank) (_ bv32767 64)))
(assert (not (and (not (bvsmulo ranked_expert (_ bv65536 32))) (not (bvsaddo (bvmul ranked_expert (_ bv65536 32)) ranked_rank)) (bvsle (_ bv0 32) (bvadd (bvmul ranked_expert (_ bv65536 32)) ranked_rank)))))
(check-sat)

; index.no_wrap.routing.fetched_step_words
; csrc/routing_kernel.cuh: no part of `slot + 4 * kWarp` leaves its type, up to the value
;   2,147,418,111.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const slot (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) slot)))
(assert (bvsle ((_ sign_extend 32) slot) (_ bv2147417983 64)))
(assert (not (and (not (bvsaddo slot (_ bv128 32))) (bvsle (_ bv0 32) (bvadd slot (_ bv128 32))))))
(check-sat)

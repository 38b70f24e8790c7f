; index.no_wrap.routing.fetched_slot_words
; csrc/routing_kernel.cuh: no part of `slot + i * kWarp` leaves its type, up to the value
;   2,147,418,079.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const slot (_ BitVec 32))
(declare-const i (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) slot)))
(assert (bvsle ((_ sign_extend 32) slot) (_ bv2147417983 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) i)))
(assert (bvsle ((_ sign_extend 32) i) (_ bv3 64)))
(assert (not (and (not (bvsmulo i (_ bv32 32))) (not (bvsaddo slot (bvmul i (_ bv32 32)))) (bvsle (_ bv0 32) (bvadd slot (bvmul i (_ bv32 32)))))))
(check-sat)

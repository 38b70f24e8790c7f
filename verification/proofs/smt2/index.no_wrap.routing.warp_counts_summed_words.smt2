; index.no_wrap.routing.warp_counts_summed_words
; csrc/routing_kernel.cuh: no part of `(first + i) * experts + e` leaves its type, up to the value
;   1,507,327.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const experts (_ BitVec 32))
(declare-const first (_ BitVec 32))
(declare-const i (_ BitVec 32))
(declare-const e (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) experts)))
(assert (bvsle ((_ sign_extend 32) experts) (_ bv65536 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) (_ bv15 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) i)))
(assert (bvsle ((_ sign_extend 32) i) (_ bv7 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) e)))
(assert (bvsle ((_ sign_extend 32) e) (bvsub ((_ sign_extend 32) experts) (_ bv1 64))))
(assert (not (and (not (bvsaddo first i)) (not (bvsmulo (bvadd first i) experts)) (not (bvsaddo (bvmul (bvadd first i) experts) e)) (bvsle (_ bv0 32) (bvadd (bvmul (bvadd first i) experts) e)))))
(check-sat)

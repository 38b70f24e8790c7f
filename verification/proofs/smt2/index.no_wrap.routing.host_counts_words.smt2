; index.no_wrap.routing.host_counts_words
; csrc/host_loops.h: no part of `static_cast<size_t>(worker * call.experts + e)` leaves its type, up
;   to the value 18,014,396,353,609,728.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const worker (_ BitVec 64))
(declare-const call_experts (_ BitVec 32))
(declare-const e (_ BitVec 32))
(assert (bvsle (_ bv0 64) worker))
(assert (bvsle worker (_ bv2147483646 64)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) call_experts)))
(assert (bvsle ((_ sign_extend 32) call_experts) (_ bv8388607 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) e)))
(assert (bvsle ((_ sign_extend 32) e) (bvsub ((_ sign_extend 32) call_experts) (_ bv1 64))))
(assert (not (and (not (bvsmulo worker ((_ sign_extend 32) call_experts))) (not (bvsaddo (bvmul worker ((_ sign_extend 32) call_experts)) ((_ sign_extend 32) e))) (bvsle (_ bv0 64) (bvadd (bvmul worker ((_ sign_extend 32) call_experts)) ((_ sign_extend 32) e))))))
(check-sat)

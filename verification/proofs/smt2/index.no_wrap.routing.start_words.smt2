; index.no_wrap.routing.start_words
; csrc/routing_kernel.cuh: no part of `running.x + offset.x + count.before` leaves its type, up to
;   the value 2,147,417,984.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const running_x (_ BitVec 32))
(declare-const offset_x (_ BitVec 32))
(declare-const count_before (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) running_x)))
(assert (bvsle ((_ sign_extend 32) running_x) (_ bv2147417984 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) offset_x)))
(assert (bvsle ((_ sign_extend 32) offset_x) (bvsub (_ bv2147417984 64) ((_ sign_extend 32) running_x))))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) count_before)))
(assert (bvsle ((_ sign_extend 32) count_before) (bvsub (bvsub (_ bv2147417984 64) ((_ sign_extend 32) running_x)) ((_ sign_extend 32) offset_x))))
(assert (not (and (not (bvsaddo running_x offset_x)) (not (bvsaddo (bvadd running_x offset_x) count_before)) (bvsle (_ bv0 32) (bvadd (bvadd running_x offset_x) count_before)))))
(check-sat)

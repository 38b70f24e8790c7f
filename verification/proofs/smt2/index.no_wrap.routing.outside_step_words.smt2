; index.no_wrap.routing.outside_step_words
; csrc/routing_kernel.cuh: no part of `slot + kAtOnce * stride` leaves its type, up to the value
;   2,147,483,519.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const slot (_ BitVec 32))
(declare-const stride (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) slot)))
(assert (bvsle ((_ sign_extend 32) slot) (_ bv2147417983 64)))
(assert (bvsle (_ bv32 64) ((_ sign_extend 32) stride)))
(assert (bvsle ((_ sign_extend 32) stride) (_ bv8192 64)))
(assert (not (and (not (bvsmulo (_ bv8 32) stride)) (not (bvsaddo slot (bvmul (_ bv8 32) stride))) (bvsle (_ bv0 32) (bvadd slot (bvmul (_ bv8 32) stride))))))
(check-sat)

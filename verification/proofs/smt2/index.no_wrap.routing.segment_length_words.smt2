; index.no_wrap.routing.segment_length_words
; include/nvfp4_moe/routing.h: no part of `round_up(ceil_div(slots, workers), kSegmentGrain)` leaves
;   its type, up to the value 2,147,417,984.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const slots (_ BitVec 32))
(declare-const workers (_ BitVec 64))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) slots)))
(assert (bvsle ((_ sign_extend 32) slots) (_ bv2147417984 64)))
(assert (bvsle (_ bv1 64) workers))
(assert (bvsle workers (_ bv2147483647 64)))
(assert (not (and (not (bvsaddo ((_ sign_extend 32) slots) workers)) (not (bvssubo (bvadd ((_ sign_extend 32) slots) workers) (_ bv1 64))) (bvsle (_ bv0 64) (bvsub (bvadd ((_ sign_extend 32) slots) workers) (_ bv1 64))) (bvsle (_ bv0 64) workers) (not (= workers (_ bv0 64))) (not (bvsaddo (bvudiv (bvsub (bvadd ((_ sign_extend 32) slots) workers) (_ bv1 64)) workers) (_ bv32 64))) (not (bvssubo (bvadd (bvudiv (bvsub (bvadd ((_ sign_extend 32) slots) workers) (_ bv1 64)) workers) (_ bv32 64)) (_ bv1 64))) (bvsle (_ bv0 64) (bvsub (bvadd (bvudiv (bvsub (bvadd ((_ sign_extend 32) slots) workers) (_ bv1 64)) workers) (_ bv32 64)) (_ bv1 64))) (bvsle (_ bv0 64) (_ bv32 64)) (not (= (_ bv32 64) (_ bv0 64))) (not (bvsmulo (bvudiv (bvsub (bvadd (bvudiv (bvsub (bvadd ((_ sign_extend 32) slots) workers) (_ bv1 64)) workers) (_ bv32 64)) (_ bv1 64)) (_ bv32 64)) (_ bv32 64))) (bvsle (_ bv0 64) (bvmul (bvudiv (bvsub (bvadd (bvudiv (bvsub (bvadd ((_ sign_extend 32) slots) workers) (_ bv1 64)) workers) (_ bv32 64)) (_ bv1 64)) (_ bv32 64)) (_ bv32 64))))))
(check-sat)

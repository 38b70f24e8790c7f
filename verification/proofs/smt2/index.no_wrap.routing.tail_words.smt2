; index.no_wrap.routing.tail_words
; csrc/routing_kernel.cuh: no part of `routed_rows + int64_t{blockIdx.x} * threads + thread` leaves
;   its type, up to the value 2,147,450,751.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const routed_rows (_ BitVec 32))
(declare-const blockIdx_x (_ BitVec 32))
(declare-const threads (_ BitVec 32))
(declare-const thread (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) routed_rows)))
(assert (bvsle ((_ sign_extend 32) routed_rows) (_ bv2147417984 64)))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) blockIdx_x)))
(assert (bvsle ((_ zero_extend 32) blockIdx_x) (_ bv63 64)))
(assert (bvsle (_ bv32 64) ((_ sign_extend 32) threads)))
(assert (bvsle ((_ sign_extend 32) threads) (_ bv512 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) thread)))
(assert (bvsle ((_ sign_extend 32) thread) (bvsub ((_ sign_extend 32) threads) (_ bv1 64))))
(assert (not (and (not (bvsmulo ((_ zero_extend 32) blockIdx_x) ((_ sign_extend 32) threads))) (not (bvsaddo ((_ sign_extend 32) routed_rows) (bvmul ((_ zero_extend 32) blockIdx_x) ((_ sign_extend 32) threads)))) (not (bvsaddo (bvadd ((_ sign_extend 32) routed_rows) (bvmul ((_ zero_extend 32) blockIdx_x) ((_ sign_extend 32) threads))) ((_ sign_extend 32) thread))) (bvsle (_ bv0 64) (bvadd (bvadd ((_ sign_extend 32) routed_rows) (bvmul ((_ zero_extend 32) blockIdx_x) ((_ sign_extend 32) threads))) ((_ sign_extend 32) thread))))))
(check-sat)

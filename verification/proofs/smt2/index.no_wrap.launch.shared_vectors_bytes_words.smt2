; index.no_wrap.launch.shared_vectors_bytes_words
; csrc/quantize_launch.cuh: no part of `4 * (3 * int64_t{call.experts} + 2)` leaves its type, up to
;   the value 25,769,803,772.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_experts (_ BitVec 32))
(assert (bvsle (_ bv18446744071562067968 64) ((_ sign_extend 32) call_experts)))
(assert (bvsle ((_ sign_extend 32) call_experts) (_ bv2147483647 64)))
(assert (not (and (not (bvsmulo (_ bv3 64) ((_ sign_extend 32) call_experts))) (not (bvsaddo (bvmul (_ bv3 64) ((_ sign_extend 32) call_experts)) (_ bv2 64))) (not (bvsmulo (_ bv4 64) (bvadd (bvmul (_ bv3 64) ((_ sign_extend 32) call_experts)) (_ bv2 64)))))))
(check-sat)

; index.no_wrap.gemm.gemm_weight_row_words
; csrc/gemm_host.h: no part of `int64_t{expert} * call.n + first + lane` leaves its type, up to the
;   value 288,221,579,924,471,807.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_n (_ BitVec 32))
(declare-const expert (_ BitVec 32))
(declare-const first (_ BitVec 32))
(declare-const lane (_ BitVec 32))
(assert (bvsle (_ bv8 64) ((_ sign_extend 32) call_n)))
(assert (bvsle ((_ sign_extend 32) call_n) (_ bv134217728 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) expert)))
(assert (bvsle ((_ sign_extend 32) expert) (_ bv2147418110 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) (bvsub ((_ sign_extend 32) call_n) (_ bv8 64))))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) lane)))
(assert (bvsle ((_ sign_extend 32) lane) (_ bv7 64)))
(assert (not (and (not (bvsmulo ((_ sign_extend 32) expert) ((_ sign_extend 32) call_n))) (not (bvsaddo (bvmul ((_ sign_extend 32) expert) ((_ sign_extend 32) call_n)) ((_ sign_extend 32) first))) (not (bvsaddo (bvadd (bvmul ((_ sign_extend 32) expert) ((_ sign_extend 32) call_n)) ((_ sign_extend 32) first)) ((_ sign_extend 32) lane))) (bvsle (_ bv0 64) (bvadd (bvadd (bvmul ((_ sign_extend 32) expert) ((_ sign_extend 32) call_n)) ((_ sign_extend 32) first)) ((_ sign_extend 32) lane))))))
(check-sat)

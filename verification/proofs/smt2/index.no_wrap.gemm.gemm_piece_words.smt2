; index.no_wrap.gemm.gemm_piece_words
; csrc/gemm_prepare.cuh: no part of `piece * kLaneK` leaves its type, up to the value 134,225,888.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const piece (_ BitVec 32))
(declare-const kLaneK (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) piece)))
(assert (bvsle ((_ sign_extend 32) piece) (_ bv4194559 64)))
(assert (bvsle (_ bv32 64) ((_ sign_extend 32) kLaneK)))
(assert (bvsle ((_ sign_extend 32) kLaneK) (_ bv32 64)))
(assert (not (and (not (bvsmulo piece kLaneK)) (bvsle (_ bv0 32) (bvmul piece kLaneK)))))
(check-sat)

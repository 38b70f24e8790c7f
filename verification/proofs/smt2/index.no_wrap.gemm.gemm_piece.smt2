; index.no_wrap.gemm.gemm_piece
; csrc/gemm_prepare.cuh: no part of `piece * kLaneK` leaves its type, up to the value 134,225,888.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const piece Int)
(declare-const kLaneK Int)
(assert (<= 0 piece))
(assert (<= piece 4194559))
(assert (<= 32 kLaneK))
(assert (<= kLaneK 32))
(assert (not (and (<= (- 2147483648) (* piece kLaneK)) (<= (* piece kLaneK) 2147483647) (<= 0 (* piece kLaneK)))))
(check-sat)

; index.no_wrap.gemm.gemm_expert_step
; csrc/gemm_prepare.cuh: no part of `begin + kPrepareThreads` leaves its type, up to the value
;   2,147,418,366.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_experts Int)
(declare-const begin Int)
(declare-const kPrepareThreads Int)
(assert (<= 1 call_experts))
(assert (<= call_experts 2147418111))
(assert (<= 0 begin))
(assert (<= begin (- call_experts 1)))
(assert (<= 256 kPrepareThreads))
(assert (<= kPrepareThreads 256))
(assert (not (and (<= (- 2147483648) (+ begin kPrepareThreads)) (<= (+ begin kPrepareThreads) 2147483647) (<= 0 (+ begin kPrepareThreads)))))
(check-sat)

; index.no_wrap.gemm.gemm_problem_size
; include/nvfp4_moe/gemm.h: no part of `int64_t{3} * expert` leaves its type, up to the value
;   6,442,254,330.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const expert Int)
(assert (<= 0 expert))
(assert (<= expert 2147418110))
(assert (not (and (<= (- 9223372036854775808) expert) (<= expert 9223372036854775807) (<= (- 9223372036854775808) (* 3 expert)) (<= (* 3 expert) 9223372036854775807) (<= 0 (* 3 expert)))))
(check-sat)

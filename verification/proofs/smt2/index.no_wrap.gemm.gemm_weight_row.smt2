; index.no_wrap.gemm.gemm_weight_row
; csrc/gemm_host.h: no part of `int64_t{expert} * call.n + first + lane` leaves its type, up to the
;   value 288,221,579,924,471,807.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_n Int)
(declare-const expert Int)
(declare-const first Int)
(declare-const lane Int)
(assert (<= 8 call_n))
(assert (<= call_n 134217728))
(assert (<= 0 expert))
(assert (<= expert 2147418110))
(assert (<= 0 first))
(assert (<= first (- call_n 8)))
(assert (<= 0 lane))
(assert (<= lane 7))
(assert (not (and (<= (- 9223372036854775808) expert) (<= expert 9223372036854775807) (<= (- 9223372036854775808) call_n) (<= call_n 9223372036854775807) (<= (- 9223372036854775808) (* expert call_n)) (<= (* expert call_n) 9223372036854775807) (<= (- 9223372036854775808) first) (<= first 9223372036854775807) (<= (- 9223372036854775808) (+ (* expert call_n) first)) (<= (+ (* expert call_n) first) 9223372036854775807) (<= (- 9223372036854775808) lane) (<= lane 9223372036854775807) (<= (- 9223372036854775808) (+ (+ (* expert call_n) first) lane)) (<= (+ (+ (* expert call_n) first) lane) 9223372036854775807) (<= 0 (+ (+ (* expert call_n) first) lane)))))
(check-sat)

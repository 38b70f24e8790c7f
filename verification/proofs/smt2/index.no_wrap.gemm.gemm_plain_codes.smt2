; index.no_wrap.gemm.gemm_plain_codes
; csrc/gemm_prepare.cuh: no part of `row * int64_t{call.k / 2} + block * (kBlockSize / 2)` leaves
;   its type, up to the value 144,115,179,485,921,272.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_k Int)
(declare-const row Int)
(declare-const block Int)
(assert (<= 16 call_k))
(assert (<= call_k 134217728))
(assert (<= 0 row))
(assert (<= row 2147483519))
(assert (<= 0 block))
(assert (<= block (- (div call_k 16) 1)))
(assert (not (and (<= (- 9223372036854775808) row) (<= row 9223372036854775807) (<= (- 2147483648) (div call_k 2)) (<= (div call_k 2) 2147483647) (<= 0 call_k) (< 0 2) (<= (- 9223372036854775808) (div call_k 2)) (<= (div call_k 2) 9223372036854775807) (<= (- 9223372036854775808) (* row (div call_k 2))) (<= (* row (div call_k 2)) 9223372036854775807) (<= (- 2147483648) (* block 8)) (<= (* block 8) 2147483647) (<= (- 9223372036854775808) (* block 8)) (<= (* block 8) 9223372036854775807) (<= (- 9223372036854775808) (+ (* row (div call_k 2)) (* block 8))) (<= (+ (* row (div call_k 2)) (* block 8)) 9223372036854775807) (<= 0 (+ (* row (div call_k 2)) (* block 8))))))
(check-sat)

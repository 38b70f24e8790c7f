; index.no_wrap.gemm.gemm_plain_row
; csrc/gemm_prepare.cuh: no part of `row * int64_t{call.k} + block * kBlockSize` leaves its type, up
;   to the value 288,230,358,971,842,544.
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
(assert (not (and (<= (- 9223372036854775808) row) (<= row 9223372036854775807) (<= (- 9223372036854775808) call_k) (<= call_k 9223372036854775807) (<= (- 9223372036854775808) (* row call_k)) (<= (* row call_k) 9223372036854775807) (<= (- 2147483648) (* block 16)) (<= (* block 16) 2147483647) (<= (- 9223372036854775808) (* block 16)) (<= (* block 16) 9223372036854775807) (<= (- 9223372036854775808) (+ (* row call_k) (* block 16))) (<= (+ (* row call_k) (* block 16)) 9223372036854775807) (<= 0 (+ (* row call_k) (* block 16))))))
(check-sat)

; index.no_wrap.gemm.gemm_dequantized_row
; csrc/gemm_prepare.cuh: no part of `row * call.k + block * kBlockSize` leaves its type, up to the
;   value 144,115,188,210,073,584.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_k Int)
(declare-const row Int)
(declare-const block Int)
(assert (<= 16 call_k))
(assert (<= call_k 134217728))
(assert (<= 0 row))
(assert (<= row 144115188075855872))
(assert (<= 0 block))
(assert (<= block (- (div call_k 16) 1)))
(assert (<= (* row call_k) 144115188075855872))
(assert (not (and (<= (- 9223372036854775808) call_k) (<= call_k 9223372036854775807) (<= (- 9223372036854775808) (* row call_k)) (<= (* row call_k) 9223372036854775807) (<= (- 2147483648) (* block 16)) (<= (* block 16) 2147483647) (<= (- 9223372036854775808) (* block 16)) (<= (* block 16) 9223372036854775807) (<= (- 9223372036854775808) (+ (* row call_k) (* block 16))) (<= (+ (* row call_k) (* block 16)) 9223372036854775807) (<= 0 (+ (* row call_k) (* block 16))))))
(check-sat)

; index.no_wrap.quantize.input_block_of_up
; include/nvfp4_moe/quantize.h: no part of `call.k + block * kBlockSize` leaves its type, up to the
;   value 268,435,440.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_k Int)
(declare-const block Int)
(assert (<= 16 call_k))
(assert (<= call_k 134217728))
(assert (<= 0 block))
(assert (<= block (- (div call_k 16) 1)))
(assert (not (and (<= (- 9223372036854775808) call_k) (<= call_k 9223372036854775807) (<= (- 9223372036854775808) (* block 16)) (<= (* block 16) 9223372036854775807) (<= (- 9223372036854775808) (+ call_k (* block 16))) (<= (+ call_k (* block 16)) 9223372036854775807) (<= 0 (+ call_k (* block 16))))))
(check-sat)

; index.no_wrap.quantize.input_block
; include/nvfp4_moe/quantize.h: no part of `block * kBlockSize` leaves its type, up to the value
;   134,217,712.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_k Int)
(declare-const block Int)
(assert (<= 16 call_k))
(assert (<= call_k 134217728))
(assert (<= 0 block))
(assert (<= block (- (div call_k 16) 1)))
(assert (not (and (<= (- 9223372036854775808) (* block 16)) (<= (* block 16) 9223372036854775807) (<= 0 (* block 16)))))
(check-sat)

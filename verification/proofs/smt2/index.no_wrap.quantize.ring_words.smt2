; index.no_wrap.quantize.ring_words
; csrc/quantize_kernel.cuh: no part of `(call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize *
;   kTileBlocks)` leaves its type, up to the value 2,097,152.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_k Int)
(assert (<= 16 call_k))
(assert (<= call_k 134217728))
(assert (not (and (<= (- 2147483648) (+ call_k 64)) (<= (+ call_k 64) 2147483647) (<= (- 2147483648) (- (+ call_k 64) 1)) (<= (- (+ call_k 64) 1) 2147483647) (<= (- 2147483648) (div (- (+ call_k 64) 1) 64)) (<= (div (- (+ call_k 64) 1) 64) 2147483647) (<= 0 (- (+ call_k 64) 1)) (< 0 64) (<= 0 (div (- (+ call_k 64) 1) 64)))))
(check-sat)

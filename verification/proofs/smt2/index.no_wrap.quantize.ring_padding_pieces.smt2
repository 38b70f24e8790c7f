; index.no_wrap.quantize.ring_padding_pieces
; csrc/quantize_kernel.cuh: no part of `(call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize *
;   kTileBlocks) * lanes` leaves its type, up to the value 67,108,864.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_k Int)
(declare-const lanes Int)
(assert (<= 16 call_k))
(assert (<= call_k 134217728))
(assert (<= 0 lanes))
(assert (<= lanes 32))
(assert (not (and (<= (- 2147483648) (+ call_k 64)) (<= (+ call_k 64) 2147483647) (<= (- 2147483648) (- (+ call_k 64) 1)) (<= (- (+ call_k 64) 1) 2147483647) (<= (- 2147483648) (div (- (+ call_k 64) 1) 64)) (<= (div (- (+ call_k 64) 1) 64) 2147483647) (<= 0 (- (+ call_k 64) 1)) (< 0 64) (<= (- 2147483648) (* (div (- (+ call_k 64) 1) 64) lanes)) (<= (* (div (- (+ call_k 64) 1) 64) lanes) 2147483647) (<= 0 (* (div (- (+ call_k 64) 1) 64) lanes)))))
(check-sat)

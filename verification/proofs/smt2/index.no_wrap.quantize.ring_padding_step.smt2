; index.no_wrap.quantize.ring_padding_step
; csrc/quantize_kernel.cuh: no part of `piece + splits * threads` leaves its type, up to the value
;   75,497,471.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const splits Int)
(declare-const threads Int)
(declare-const piece Int)
(assert (<= 1 splits))
(assert (<= splits 32768))
(assert (<= 32 threads))
(assert (<= threads 256))
(assert (<= 0 piece))
(assert (<= piece 67108863))
(assert (not (and (<= (- 2147483648) (* splits threads)) (<= (* splits threads) 2147483647) (<= (- 2147483648) (+ piece (* splits threads))) (<= (+ piece (* splits threads)) 2147483647) (<= 0 (+ piece (* splits threads))))))
(check-sat)

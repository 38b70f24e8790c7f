; index.no_wrap.quantize.ring_scale_word
; csrc/quantize_kernel.cuh: no part of `block / kTileBlocks * (kTileRows * kTileBlocks) + 4 * place`
;   leaves its type, up to the value 1,342,177,292.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const block Int)
(declare-const place Int)
(assert (<= 0 block))
(assert (<= block 10485760))
(assert (<= 0 place))
(assert (<= place 3))
(assert (not (and (<= 0 (div block 4)) (<= (div block 4) 4294967295) (<= 0 block) (< 0 4) (<= 0 (* (div block 4) 512)) (<= (* (div block 4) 512) 4294967295) (<= 0 (* 4 place)) (<= (* 4 place) 4294967295) (<= 0 (+ (* (div block 4) 512) (* 4 place))) (<= (+ (* (div block 4) 512) (* 4 place)) 4294967295))))
(check-sat)

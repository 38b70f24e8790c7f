; index.no_wrap.quantize.ring_scale_word
; csrc/quantize_kernel.cuh: no part of `static_cast<uint32_t>(block / kTileBlocks * (kTileRows *
;   kTileBlocks))` leaves its type, up to the value 1,342,177,280.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const block Int)
(assert (<= 0 block))
(assert (<= block 10485760))
(assert (not (and (<= (- 2147483648) (div block 4)) (<= (div block 4) 2147483647) (<= 0 block) (< 0 4) (<= (- 2147483648) (* (div block 4) 512)) (<= (* (div block 4) 512) 2147483647) (<= 0 (* (div block 4) 512)) (<= (* (div block 4) 512) 4294967295))))
(check-sat)

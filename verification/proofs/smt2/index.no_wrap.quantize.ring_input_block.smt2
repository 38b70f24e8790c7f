; index.no_wrap.quantize.ring_input_block
; csrc/quantize_kernel.cuh: no part of `first_block * kBlockSize` leaves its type, up to the value
;   167,772,160.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const first_block Int)
(assert (<= 0 first_block))
(assert (<= first_block 10485760))
(assert (not (and (<= (- 2147483648) (* first_block 16)) (<= (* first_block 16) 2147483647) (<= 0 (* first_block 16)))))
(check-sat)

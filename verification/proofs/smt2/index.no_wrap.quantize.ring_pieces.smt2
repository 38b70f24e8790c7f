; index.no_wrap.quantize.ring_pieces
; csrc/quantize_kernel.cuh: no part of `2 * (blocks - first_block)` leaves its type, up to the value
;   16,777,216.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const blocks Int)
(declare-const first_block Int)
(assert (<= 1 blocks))
(assert (<= blocks 8388608))
(assert (<= 0 first_block))
(assert (<= first_block 10485760))
(assert (not (and (<= (- 2147483648) (- blocks first_block)) (<= (- blocks first_block) 2147483647) (<= (- 2147483648) (* 2 (- blocks first_block))) (<= (* 2 (- blocks first_block)) 2147483647))))
(check-sat)

; index.no_wrap.quantize.masked_last_row
; include/nvfp4_moe/quantize.h: no part of `first + owned` leaves its type, up to the value
;   2,147,418,111.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const first Int)
(declare-const owned Int)
(assert (<= 0 first))
(assert (<= first 2147418111))
(assert (<= 0 owned))
(assert (<= owned (- 2147418111 first)))
(assert (not (and (<= (- 2147483648) (+ first owned)) (<= (+ first owned) 2147483647) (<= 0 (+ first owned)))))
(check-sat)

; index.no_wrap.quantize.few_padding_step
; csrc/few_rows_kernel.cuh: no part of `word + owned * warps` leaves its type, up to the value
;   262,271.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const word Int)
(declare-const owned Int)
(declare-const warps Int)
(assert (<= 0 word))
(assert (<= word 127))
(assert (<= 1 owned))
(assert (<= owned 16384))
(assert (<= 1 warps))
(assert (<= warps 16))
(assert (not (and (<= (- 2147483648) (* owned warps)) (<= (* owned warps) 2147483647) (<= (- 2147483648) (+ word (* owned warps))) (<= (+ word (* owned warps)) 2147483647) (<= 0 (+ word (* owned warps))))))
(check-sat)

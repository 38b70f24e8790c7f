; index.no_wrap.quantize.few_scale_row
; csrc/few_rows_kernel.cuh: no part of `region_byte(owner, words) +
;   row_byte_128x4(static_cast<uint32_t>(in_expert), static_cast<uint32_t>(words))` leaves its type,
;   up to the value 1,099,519,950,844.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const owner_scale_row Int)
(declare-const words Int)
(declare-const in_expert Int)
(assert (<= 0 owner_scale_row))
(assert (<= owner_scale_row 2147483647))
(assert (<= 1 words))
(assert (<= words 128))
(assert (<= 0 in_expert))
(assert (<= in_expert 16383))
(assert (not (and (<= (- 9223372036854775808) words) (<= words 9223372036854775807) (<= (- 9223372036854775808) (* words 4)) (<= (* words 4) 9223372036854775807) (<= (- 9223372036854775808) (* owner_scale_row (* words 4))) (<= (* owner_scale_row (* words 4)) 9223372036854775807) (<= 0 in_expert) (<= in_expert 4294967295) (<= 0 (mod in_expert 128)) (<= (mod in_expert 128) 4294967295) (< 0 128) (<= 0 (- in_expert (mod in_expert 128))) (<= (- in_expert (mod in_expert 128)) 4294967295) (<= (- 9223372036854775808) (- in_expert (mod in_expert 128))) (<= (- in_expert (mod in_expert 128)) 9223372036854775807) (<= 0 words) (<= words 4294967295) (<= 0 (* words 4)) (<= (* words 4) 4294967295) (<= (- 9223372036854775808) (* (- in_expert (mod in_expert 128)) (* words 4))) (<= (* (- in_expert (mod in_expert 128)) (* words 4)) 9223372036854775807) (<= 0 (mod (mod in_expert 128) 32)) (<= (mod (mod in_expert 128) 32) 4294967295) (< 0 32) (<= 0 (* (mod (mod in_expert 128) 32) 4)) (<= (* (mod (mod in_expert 128) 32) 4) 4294967295) (<= 0 (div (mod in_expert 128) 32)) (<= (div (mod in_expert 128) 32) 4294967295) (<= 0 (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32))) (<= (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32)) 4294967295) (<= 0 (* (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32)) 4)) (<= (* (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32)) 4) 4294967295) (<= (- 9223372036854775808) (* (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32)) 4)) (<= (* (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32)) 4) 9223372036854775807) (<= (- 9223372036854775808) (+ (* (- in_expert (mod in_expert 128)) (* words 4)) (* (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32)) 4))) (<= (+ (* (- in_expert (mod in_expert 128)) (* words 4)) (* (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32)) 4)) 9223372036854775807) (<= (- 9223372036854775808) (+ (* owner_scale_row (* words 4)) (+ (* (- in_expert (mod in_expert 128)) (* words 4)) (* (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32)) 4)))) (<= (+ (* owner_scale_row (* words 4)) (+ (* (- in_expert (mod in_expert 128)) (* words 4)) (* (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32)) 4))) 9223372036854775807) (<= 0 (+ (* owner_scale_row (* words 4)) (+ (* (- in_expert (mod in_expert 128)) (* words 4)) (* (+ (* (mod (mod in_expert 128) 32) 4) (div (mod in_expert 128) 32)) 4)))))))
(check-sat)

; index.no_wrap.quantize.ring_scale_row
; csrc/quantize_kernel.cuh: no part of `row_byte_128x4(static_cast<uint32_t>(row_in_expert),
;   static_cast<uint32_t>(words))` leaves its type, up to the value 18,013,847,679,926,780.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const words Int)
(declare-const row_in_expert Int)
(assert (<= 1 words))
(assert (<= words 2097152))
(assert (<= 0 row_in_expert))
(assert (<= row_in_expert 2147418111))
(assert (not (and (<= 0 row_in_expert) (<= row_in_expert 4294967295) (<= 0 (mod row_in_expert 128)) (<= (mod row_in_expert 128) 4294967295) (< 0 128) (<= 0 (- row_in_expert (mod row_in_expert 128))) (<= (- row_in_expert (mod row_in_expert 128)) 4294967295) (<= (- 9223372036854775808) (- row_in_expert (mod row_in_expert 128))) (<= (- row_in_expert (mod row_in_expert 128)) 9223372036854775807) (<= 0 words) (<= words 4294967295) (<= 0 (* words 4)) (<= (* words 4) 4294967295) (<= (- 9223372036854775808) (* words 4)) (<= (* words 4) 9223372036854775807) (<= (- 9223372036854775808) (* (- row_in_expert (mod row_in_expert 128)) (* words 4))) (<= (* (- row_in_expert (mod row_in_expert 128)) (* words 4)) 9223372036854775807) (<= 0 (mod (mod row_in_expert 128) 32)) (<= (mod (mod row_in_expert 128) 32) 4294967295) (< 0 32) (<= 0 (* (mod (mod row_in_expert 128) 32) 4)) (<= (* (mod (mod row_in_expert 128) 32) 4) 4294967295) (<= 0 (div (mod row_in_expert 128) 32)) (<= (div (mod row_in_expert 128) 32) 4294967295) (<= 0 (+ (* (mod (mod row_in_expert 128) 32) 4) (div (mod row_in_expert 128) 32))) (<= (+ (* (mod (mod row_in_expert 128) 32) 4) (div (mod row_in_expert 128) 32)) 4294967295) (<= 0 (* (+ (* (mod (mod row_in_expert 128) 32) 4) (div (mod row_in_expert 128) 32)) 4)) (<= (* (+ (* (mod (mod row_in_expert 128) 32) 4) (div (mod row_in_expert 128) 32)) 4) 4294967295) (<= (- 9223372036854775808) (* (+ (* (mod (mod row_in_expert 128) 32) 4) (div (mod row_in_expert 128) 32)) 4)) (<= (* (+ (* (mod (mod row_in_expert 128) 32) 4) (div (mod row_in_expert 128) 32)) 4) 9223372036854775807) (<= (- 9223372036854775808) (+ (* (- row_in_expert (mod row_in_expert 128)) (* words 4)) (* (+ (* (mod (mod row_in_expert 128) 32) 4) (div (mod row_in_expert 128) 32)) 4))) (<= (+ (* (- row_in_expert (mod row_in_expert 128)) (* words 4)) (* (+ (* (mod (mod row_in_expert 128) 32) 4) (div (mod row_in_expert 128) 32)) 4)) 9223372036854775807) (<= 0 (+ (* (- row_in_expert (mod row_in_expert 128)) (* words 4)) (* (+ (* (mod (mod row_in_expert 128) 32) 4) (div (mod row_in_expert 128) 32)) 4))))))
(check-sat)

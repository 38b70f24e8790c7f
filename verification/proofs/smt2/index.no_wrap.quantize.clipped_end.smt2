; index.no_wrap.quantize.clipped_end
; include/nvfp4_moe/quantize.h: no part of `static_cast<int32_t>(first + fitting)` leaves its type,
;   up to the value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const end Int)
(declare-const first Int)
(declare-const fitting Int)
(assert (<= 0 end))
(assert (<= end 2147418111))
(assert (<= 0 first))
(assert (<= first end))
(assert (<= 0 fitting))
(assert (<= fitting (- end first)))
(assert (not (and (<= (- 9223372036854775808) first) (<= first 9223372036854775807) (<= (- 9223372036854775808) (+ first fitting)) (<= (+ first fitting) 9223372036854775807) (<= (- 2147483648) (+ first fitting)) (<= (+ first fitting) 2147483647) (<= 0 (+ first fitting)))))
(check-sat)

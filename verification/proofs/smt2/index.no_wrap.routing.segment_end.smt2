; index.no_wrap.routing.segment_end
; include/nvfp4_moe/routing.h: no part of `first + length` leaves its type, up to the value
;   4,294,901,663.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const first Int)
(declare-const length Int)
(assert (<= 0 first))
(assert (<= first 2147417984))
(assert (<= 0 length))
(assert (<= length 2147483679))
(assert (not (and (<= (- 9223372036854775808) (+ first length)) (<= (+ first length) 9223372036854775807) (<= 0 (+ first length)))))
(check-sat)

; index.no_wrap.quantize.rows_of_an_owner
; include/nvfp4_moe/quantize.h: no part of `end - first` leaves its type, up to the value
;   2,147,418,111.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const end Int)
(declare-const first Int)
(assert (<= 0 end))
(assert (<= end 2147418111))
(assert (<= 0 first))
(assert (<= first end))
(assert (not (and (<= (- 2147483648) (- end first)) (<= (- end first) 2147483647) (<= 0 (- end first)))))
(check-sat)

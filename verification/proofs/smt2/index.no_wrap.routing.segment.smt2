; index.no_wrap.routing.segment
; include/nvfp4_moe/routing.h: no part of `worker * length` leaves its type, up to the value
;   4,611,686,080,704,413,634.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const worker Int)
(declare-const length Int)
(assert (<= 0 worker))
(assert (<= worker 2147483646))
(assert (<= 0 length))
(assert (<= length 2147483679))
(assert (not (and (<= (- 9223372036854775808) (* worker length)) (<= (* worker length) 9223372036854775807) (<= 0 (* worker length)))))
(check-sat)

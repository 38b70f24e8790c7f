; index.no_wrap.launch.rows_in_flight
; csrc/quantize_launch.cuh: no part of `rows * splits * slabs` leaves its type, up to the value
;   4,611,474,912,194,887,680.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const rows Int)
(declare-const splits Int)
(declare-const slabs Int)
(assert (<= 0 rows))
(assert (<= rows 2147418111))
(assert (<= 1 splits))
(assert (<= splits 32768))
(assert (<= 1 slabs))
(assert (<= slabs 65535))
(assert (not (and (<= (- 9223372036854775808) (* rows splits)) (<= (* rows splits) 9223372036854775807) (<= (- 9223372036854775808) (* (* rows splits) slabs)) (<= (* (* rows splits) slabs) 9223372036854775807) (<= 0 (* (* rows splits) slabs)))))
(check-sat)

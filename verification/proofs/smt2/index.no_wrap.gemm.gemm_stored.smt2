; index.no_wrap.gemm.gemm_stored
; csrc/gemm_kernel.cuh: no part of `int64_t{unit.first_row} * given.call.n + column` leaves its
;   type, up to the value 288,230,358,837,624,831.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const given_call_n Int)
(declare-const unit_first_row Int)
(declare-const column Int)
(assert (<= 8 given_call_n))
(assert (<= given_call_n 134217728))
(assert (<= 0 unit_first_row))
(assert (<= unit_first_row 2147483518))
(assert (<= 0 column))
(assert (<= column (- given_call_n 1)))
(assert (not (and (<= (- 9223372036854775808) unit_first_row) (<= unit_first_row 9223372036854775807) (<= (- 9223372036854775808) given_call_n) (<= given_call_n 9223372036854775807) (<= (- 9223372036854775808) (* unit_first_row given_call_n)) (<= (* unit_first_row given_call_n) 9223372036854775807) (<= (- 9223372036854775808) column) (<= column 9223372036854775807) (<= (- 9223372036854775808) (+ (* unit_first_row given_call_n) column)) (<= (+ (* unit_first_row given_call_n) column) 9223372036854775807) (<= 0 (+ (* unit_first_row given_call_n) column)))))
(check-sat)

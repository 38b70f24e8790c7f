; index.no_wrap.gemm.gemm_copied_row
; csrc/gemm_kernel.cuh: no part of `unit.first_row + row` leaves its type, up to the value
;   2,147,483,526.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const unit_first_row Int)
(declare-const row Int)
(assert (<= 0 unit_first_row))
(assert (<= unit_first_row 2147483518))
(assert (<= 0 row))
(assert (<= row (- 2147483526 unit_first_row)))
(assert (not (and (<= (- 2147483648) (+ unit_first_row row)) (<= (+ unit_first_row row) 2147483647) (<= 0 (+ unit_first_row row)))))
(check-sat)

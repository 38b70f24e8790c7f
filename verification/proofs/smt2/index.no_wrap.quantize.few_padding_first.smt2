; index.no_wrap.quantize.few_padding_first
; csrc/few_rows_kernel.cuh: no part of `(row - rows.first_row) * warps + warp` leaves its type, up
;   to the value 262,143.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const row Int)
(declare-const rows_first_row Int)
(declare-const warps Int)
(declare-const warp Int)
(assert (<= 0 row))
(assert (<= row 16383))
(assert (<= 0 rows_first_row))
(assert (<= rows_first_row row))
(assert (<= 1 warps))
(assert (<= warps 16))
(assert (<= 0 warp))
(assert (<= warp (- warps 1)))
(assert (not (and (<= (- 2147483648) (- row rows_first_row)) (<= (- row rows_first_row) 2147483647) (<= (- 2147483648) (* (- row rows_first_row) warps)) (<= (* (- row rows_first_row) warps) 2147483647) (<= (- 2147483648) (+ (* (- row rows_first_row) warps) warp)) (<= (+ (* (- row rows_first_row) warps) warp) 2147483647) (<= 0 (+ (* (- row rows_first_row) warps) warp)))))
(check-sat)

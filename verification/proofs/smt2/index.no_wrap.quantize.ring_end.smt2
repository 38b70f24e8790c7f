; index.no_wrap.quantize.ring_end
; csrc/quantize_kernel.cuh: no part of `slab + min(first + split.rows_each, rows)` leaves its type,
;   up to the value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const rows Int)
(declare-const slab Int)
(declare-const first Int)
(declare-const split_rows_each Int)
(assert (<= 1 rows))
(assert (<= rows 2147418111))
(assert (<= 0 slab))
(assert (<= slab (- 2147418111 rows)))
(assert (<= 0 first))
(assert (<= first (+ rows 63)))
(assert (<= 1 split_rows_each))
(assert (<= split_rows_each 8))
(assert (not (and (<= (- 2147483648) (+ first split_rows_each)) (<= (+ first split_rows_each) 2147483647) (<= (- 2147483648) (ite (<= (+ first split_rows_each) rows) (+ first split_rows_each) rows)) (<= (ite (<= (+ first split_rows_each) rows) (+ first split_rows_each) rows) 2147483647) (<= (- 2147483648) (+ slab (ite (<= (+ first split_rows_each) rows) (+ first split_rows_each) rows))) (<= (+ slab (ite (<= (+ first split_rows_each) rows) (+ first split_rows_each) rows)) 2147483647) (<= 0 (+ slab (ite (<= (+ first split_rows_each) rows) (+ first split_rows_each) rows))))))
(check-sat)

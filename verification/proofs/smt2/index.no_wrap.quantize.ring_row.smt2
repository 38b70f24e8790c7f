; index.no_wrap.quantize.ring_row
; csrc/quantize_kernel.cuh: no part of `slab + first` leaves its type, up to the value
;   2,147,418,174.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const slab Int)
(declare-const first Int)
(assert (<= 0 slab))
(assert (<= slab 2147418111))
(assert (<= 0 first))
(assert (<= first (+ (- 2147418111 slab) 63)))
(assert (not (and (<= (- 2147483648) (+ slab first)) (<= (+ slab first) 2147483647) (<= 0 (+ slab first)))))
(check-sat)

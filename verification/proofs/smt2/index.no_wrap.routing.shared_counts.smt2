; index.no_wrap.routing.shared_counts
; csrc/routing.cu: no part of `static_cast<size_t>(warps + 3) * static_cast<size_t>(experts) * 4`
;   leaves its type, up to the value 637,534,132.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const warps Int)
(declare-const experts Int)
(assert (<= 1 warps))
(assert (<= warps 16))
(assert (<= 1 experts))
(assert (<= experts 8388607))
(assert (not (and (<= (- 2147483648) (+ warps 3)) (<= (+ warps 3) 2147483647) (<= 0 (+ warps 3)) (<= (+ warps 3) 18446744073709551615) (<= 0 experts) (<= experts 18446744073709551615) (<= 0 (* (+ warps 3) experts)) (<= (* (+ warps 3) experts) 18446744073709551615) (<= 0 (* (* (+ warps 3) experts) 4)) (<= (* (* (+ warps 3) experts) 4) 18446744073709551615))))
(check-sat)

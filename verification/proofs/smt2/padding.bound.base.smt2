; padding.bound.base
; No expert: no row, no tile; the invariant A*B <= U + (A-1)*e and B <= U holds.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tile Int)
(assert (<= 1 tile))
(assert (not (and (<= (* tile 0) (+ 0 (* (- tile 1) 0))) (<= 0 0))))
(check-sat)

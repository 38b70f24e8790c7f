; padding.bound.loose_gap
; The loose form is less than one tile above the exact one.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tile Int)
(declare-const routed Int)
(declare-const experts Int)
(declare-const reach Int)
(assert (<= 1 tile))
(assert (<= 0 routed))
(assert (<= 0 experts))
(assert (and (<= (* reach tile) (+ routed (* (- tile 1) experts))) (< (+ routed (* (- tile 1) experts)) (* (+ reach 1) tile))))
(assert (not (< (+ routed (* (- tile 1) (ite (<= routed experts) routed experts))) (+ (* tile (ite (<= routed reach) routed reach)) tile))))
(check-sat)

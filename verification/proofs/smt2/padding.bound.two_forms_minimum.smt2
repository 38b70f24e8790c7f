; padding.bound.two_forms_minimum
; T >= E: E + floor((T-E)/A) is at most T, so A * (f + floor((T-f)/A)), f = min(T, E), is the exact
;   form.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tile Int)
(declare-const routed Int)
(declare-const experts Int)
(declare-const tiles Int)
(assert (<= 1 tile))
(assert (<= 0 routed))
(assert (<= 0 experts))
(assert (<= experts routed))
(assert (and (<= (* tiles tile) (- routed experts)) (< (- routed experts) (* (+ tiles 1) tile))))
(assert (not (<= (+ experts tiles) routed)))
(check-sat)

; padding.attained.many_rows
; T >= E: the expert with 1 + T - E rows opens 1 + floor((T-E)/A) tiles; with E - 1 tiles of the
;   others that is E + floor((T-E)/A), the exact form by padding.bound.two_forms.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tile Int)
(declare-const routed Int)
(declare-const experts Int)
(declare-const first_tiles Int)
(assert (<= 1 tile))
(assert (<= 0 routed))
(assert (<= 0 experts))
(assert (<= experts routed))
(assert (and (< (* (- first_tiles 1) tile) (+ (- routed experts) 1)) (<= (+ (- routed experts) 1) (* first_tiles tile))))
(assert (not (and (<= (* (- first_tiles 1) tile) (- routed experts)) (< (- routed experts) (* (+ (- first_tiles 1) 1) tile)))))
(check-sat)

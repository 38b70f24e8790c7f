; padding.bound.distinct_step
; So B <= e*ceil(M/A) is kept by one more expert.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const experts Int)
(declare-const tiles Int)
(declare-const token_tiles Int)
(declare-const count_tiles Int)
(assert (<= 0 experts))
(assert (<= tiles (* experts token_tiles)))
(assert (<= count_tiles token_tiles))
(assert (not (<= (+ tiles count_tiles) (* (+ experts 1) token_tiles))))
(check-sat)

; padding.disjoint.later
; If an expert starts at or after the end of expert e, so does the one behind it.
(set-info :status unsat)
(set-logic QF_LIA)
(declare-const count_tiles Int)
(declare-const slot Int)
(declare-const later_slot Int)
(declare-const next_slot Int)
(assert (<= 0 count_tiles))
(assert (<= slot later_slot))
(assert (<= (+ later_slot count_tiles) next_slot))
(assert (not (<= slot next_slot)))
(check-sat)

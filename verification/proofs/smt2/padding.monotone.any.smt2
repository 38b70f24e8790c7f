; padding.monotone.any
; So exact_any falls neither in T nor in E.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tile Int)
(declare-const routed Int)
(declare-const more_routed Int)
(declare-const reach Int)
(declare-const more_reach Int)
(assert (<= 1 tile))
(assert (<= routed more_routed))
(assert (<= reach more_reach))
(assert (not (<= (* tile (ite (<= routed reach) routed reach)) (* tile (ite (<= more_routed more_reach) more_routed more_reach)))))
(check-sat)

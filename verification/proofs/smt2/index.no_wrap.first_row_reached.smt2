; index.no_wrap.first_row_reached
; The last column of that row does, so it is the first row that wraps.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const columns Int)
(declare-const first_row Int)
(declare-const limit Int)
(assert (<= 1 columns))
(assert (and (< (* (- first_row 1) columns) (- limit (- columns 1))) (<= (- limit (- columns 1)) (* first_row columns))))
(assert (not (<= limit (+ (* first_row columns) (- columns 1)))))
(check-sat)

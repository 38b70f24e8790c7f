; index.no_wrap.gemm.gemm_prepared_row
; csrc/gemm_prepare.cuh: no part of `row * int64_t{steps} * kStepK + piece / 4 * kStepK` leaves its
;   type, up to the value 288,230,358,971,850,624.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const steps Int)
(declare-const kStepK Int)
(declare-const row Int)
(declare-const piece Int)
(assert (<= 1 steps))
(assert (<= steps 1048576))
(assert (<= 128 kStepK))
(assert (<= kStepK 128))
(assert (<= 0 row))
(assert (<= row 2147483519))
(assert (<= 0 piece))
(assert (<= piece 4194559))
(assert (not (and (<= (- 9223372036854775808) row) (<= row 9223372036854775807) (<= (- 9223372036854775808) steps) (<= steps 9223372036854775807) (<= (- 9223372036854775808) (* row steps)) (<= (* row steps) 9223372036854775807) (<= (- 9223372036854775808) kStepK) (<= kStepK 9223372036854775807) (<= (- 9223372036854775808) (* (* row steps) kStepK)) (<= (* (* row steps) kStepK) 9223372036854775807) (<= (- 2147483648) (div piece 4)) (<= (div piece 4) 2147483647) (<= 0 piece) (< 0 4) (<= (- 2147483648) (* (div piece 4) kStepK)) (<= (* (div piece 4) kStepK) 2147483647) (<= (- 9223372036854775808) (* (div piece 4) kStepK)) (<= (* (div piece 4) kStepK) 9223372036854775807) (<= (- 9223372036854775808) (+ (* (* row steps) kStepK) (* (div piece 4) kStepK))) (<= (+ (* (* row steps) kStepK) (* (div piece 4) kStepK)) 9223372036854775807) (<= 0 (+ (* (* row steps) kStepK) (* (div piece 4) kStepK))))))
(check-sat)

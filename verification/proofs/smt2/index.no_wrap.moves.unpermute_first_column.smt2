; index.no_wrap.moves.unpermute_first_column
; csrc/rows.cu: no part of `8 * threadIdx.x` leaves its type, up to the value 2,040.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const threadIdx_x Int)
(assert (<= 0 threadIdx_x))
(assert (<= threadIdx_x 255))
(assert (not (and (<= 0 (* 8 threadIdx_x)) (<= (* 8 threadIdx_x) 4294967295))))
(check-sat)

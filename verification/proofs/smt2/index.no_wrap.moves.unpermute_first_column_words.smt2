; index.no_wrap.moves.unpermute_first_column_words
; csrc/rows.cu: no part of `8 * threadIdx.x` leaves its type, up to the value 2,040.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const threadIdx_x (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ zero_extend 32) threadIdx_x)))
(assert (bvsle ((_ zero_extend 32) threadIdx_x) (_ bv255 64)))
(assert (not (not (bvumulo (_ bv8 32) threadIdx_x))))
(check-sat)

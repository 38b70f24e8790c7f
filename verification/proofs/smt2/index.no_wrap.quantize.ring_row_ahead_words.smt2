; index.no_wrap.quantize.ring_row_ahead_words
; csrc/quantize_kernel.cuh: no part of `row + kAhead` leaves its type, up to the value
;   2,147,418,112.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const row (_ BitVec 32))
(declare-const kAhead (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (_ bv2147418110 64)))
(assert (bvsle (_ bv2 64) ((_ sign_extend 32) kAhead)))
(assert (bvsle ((_ sign_extend 32) kAhead) (_ bv2 64)))
(assert (not (and (not (bvsaddo row kAhead)) (bvsle (_ bv0 32) (bvadd row kAhead)))))
(check-sat)

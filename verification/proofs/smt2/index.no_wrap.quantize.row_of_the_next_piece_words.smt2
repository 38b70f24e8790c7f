; index.no_wrap.quantize.row_of_the_next_piece_words
; include/nvfp4_moe/quantize.h: no part of `row + kTileLanes` leaves its type, up to the value
;   2,147,418,143.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const row (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (_ bv2147418111 64)))
(assert (not (and (not (bvsaddo row (_ bv32 32))) (bvsle (_ bv0 32) (bvadd row (_ bv32 32))))))
(check-sat)

; index.no_wrap.quantize.ring_row_words
; csrc/quantize_kernel.cuh: no part of `slab + first` leaves its type, up to the value
;   2,147,418,174.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const slab (_ BitVec 32))
(declare-const first (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) slab)))
(assert (bvsle ((_ sign_extend 32) slab) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) (bvadd (bvsub (_ bv2147418111 64) ((_ sign_extend 32) slab)) (_ bv63 64))))
(assert (not (and (not (bvsaddo slab first)) (bvsle (_ bv0 32) (bvadd slab first)))))
(check-sat)

; index.no_wrap.quantize.ring_end_words
; csrc/quantize_kernel.cuh: no part of `slab + min(first + split.rows_each, rows)` leaves its type,
;   up to the value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const rows (_ BitVec 32))
(declare-const slab (_ BitVec 32))
(declare-const first (_ BitVec 32))
(declare-const split_rows_each (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) rows)))
(assert (bvsle ((_ sign_extend 32) rows) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) slab)))
(assert (bvsle ((_ sign_extend 32) slab) (bvsub (_ bv2147418111 64) ((_ sign_extend 32) rows))))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first)))
(assert (bvsle ((_ sign_extend 32) first) (bvadd ((_ sign_extend 32) rows) (_ bv63 64))))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) split_rows_each)))
(assert (bvsle ((_ sign_extend 32) split_rows_each) (_ bv8 64)))
(assert (not (and (not (bvsaddo first split_rows_each)) (not (bvsaddo slab (ite (bvsle (bvadd first split_rows_each) rows) (bvadd first split_rows_each) rows))) (bvsle (_ bv0 32) (bvadd slab (ite (bvsle (bvadd first split_rows_each) rows) (bvadd first split_rows_each) rows))))))
(check-sat)

; index.no_wrap.quantize.ring_row_in_expert_words
; csrc/quantize_kernel.cuh: no part of `row - expert.owner.first_row` leaves its type, up to the
;   value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const row (_ BitVec 32))
(declare-const expert_owner_first_row (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) expert_owner_first_row)))
(assert (bvsle ((_ sign_extend 32) expert_owner_first_row) ((_ sign_extend 32) row)))
(assert (not (and (not (bvssubo row expert_owner_first_row)) (bvsle (_ bv0 32) (bvsub row expert_owner_first_row)))))
(check-sat)

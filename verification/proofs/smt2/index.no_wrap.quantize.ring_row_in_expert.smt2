; index.no_wrap.quantize.ring_row_in_expert
; csrc/quantize_kernel.cuh: no part of `row - expert.owner.first_row` leaves its type, up to the
;   value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const row Int)
(declare-const expert_owner_first_row Int)
(assert (<= 0 row))
(assert (<= row 2147418111))
(assert (<= 0 expert_owner_first_row))
(assert (<= expert_owner_first_row row))
(assert (not (and (<= (- 2147483648) (- row expert_owner_first_row)) (<= (- row expert_owner_first_row) 2147483647) (<= 0 (- row expert_owner_first_row)))))
(check-sat)

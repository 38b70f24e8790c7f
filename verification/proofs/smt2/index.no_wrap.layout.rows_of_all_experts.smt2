; index.no_wrap.layout.rows_of_all_experts
; csrc/rows.cu: no part of `call.experts * padded_rows` leaves its type, up to the value
;   144,115,188,075,855,872.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const call_experts Int)
(declare-const padded_rows Int)
(assert (<= 1 call_experts))
(assert (<= call_experts 144115188075855872))
(assert (<= 8 padded_rows))
(assert (<= padded_rows 144115188075855872))
(assert (<= (* call_experts padded_rows) 144115188075855872))
(assert (not (and (<= (- 9223372036854775808) (* call_experts padded_rows)) (<= (* call_experts padded_rows) 9223372036854775807) (<= 0 (* call_experts padded_rows)))))
(check-sat)

; index.no_wrap.gemm.gemm_units
; csrc/gemm_kernel.cuh: no part of `int64_t{tiles} * given.column_tiles` leaves its type, up to the
;   value 2,251,799,812,636,672.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const tiles Int)
(declare-const given_column_tiles Int)
(assert (<= 0 tiles))
(assert (<= tiles 2147483647))
(assert (<= 1 given_column_tiles))
(assert (<= given_column_tiles 1048576))
(assert (not (and (<= (- 9223372036854775808) tiles) (<= tiles 9223372036854775807) (<= (- 9223372036854775808) given_column_tiles) (<= given_column_tiles 9223372036854775807) (<= (- 9223372036854775808) (* tiles given_column_tiles)) (<= (* tiles given_column_tiles) 9223372036854775807) (<= 0 (* tiles given_column_tiles)))))
(check-sat)

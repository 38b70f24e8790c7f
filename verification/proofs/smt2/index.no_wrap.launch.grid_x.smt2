; index.no_wrap.launch.grid_x
; csrc/quantize_launch.cuh: no part of `static_cast<uint32_t>(row_blocks + padding_blocks)` leaves
;   its type, up to the value 4,294,836,222.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const row_blocks Int)
(declare-const padding_blocks Int)
(assert (<= 0 row_blocks))
(assert (<= row_blocks 2147418111))
(assert (<= 0 padding_blocks))
(assert (<= padding_blocks 2147418111))
(assert (not (and (<= (- 9223372036854775808) (+ row_blocks padding_blocks)) (<= (+ row_blocks padding_blocks) 9223372036854775807) (<= 0 (+ row_blocks padding_blocks)) (<= (+ row_blocks padding_blocks) 4294967295))))
(check-sat)

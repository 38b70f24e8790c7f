; index.no_wrap.launch.grid_x_words
; csrc/quantize_launch.cuh: no part of `static_cast<uint32_t>(row_blocks + padding_blocks)` leaves
;   its type, up to the value 4,294,836,222.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const row_blocks (_ BitVec 64))
(declare-const padding_blocks (_ BitVec 64))
(assert (bvsle (_ bv0 64) row_blocks))
(assert (bvsle row_blocks (_ bv2147418111 64)))
(assert (bvsle (_ bv0 64) padding_blocks))
(assert (bvsle padding_blocks (_ bv2147418111 64)))
(assert (not (and (not (bvsaddo row_blocks padding_blocks)) (= ((_ zero_extend 32) ((_ extract 31 0) (bvadd row_blocks padding_blocks))) (bvadd row_blocks padding_blocks)) (bvsle (_ bv0 64) (bvadd row_blocks padding_blocks)))))
(check-sat)

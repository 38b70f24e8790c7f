; index.no_wrap.quantize.ring_pieces_words
; csrc/quantize_kernel.cuh: no part of `2 * (blocks - first_block)` leaves its type, up to the value
;   16,777,216.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const blocks (_ BitVec 32))
(declare-const first_block (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) blocks)))
(assert (bvsle ((_ sign_extend 32) blocks) (_ bv8388608 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) first_block)))
(assert (bvsle ((_ sign_extend 32) first_block) (_ bv10485760 64)))
(assert (not (and (not (bvssubo blocks first_block)) (not (bvsmulo (_ bv2 32) (bvsub blocks first_block))))))
(check-sat)

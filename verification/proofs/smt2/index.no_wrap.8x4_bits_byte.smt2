; index.no_wrap.8x4_bits_byte
; 8x4, 32-bit vectors: for a tile below 67108864, tile*32 + place equals the 64-bit one.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const tile (_ BitVec 32))
(declare-const place (_ BitVec 32))
(assert (and (bvsle (_ bv0 32) tile) (bvslt tile (_ bv67108864 32))))
(assert (and (bvsle (_ bv0 32) place) (bvslt place (_ bv32 32))))
(assert (not (and (= ((_ sign_extend 32) (bvadd (bvmul tile (_ bv32 32)) place)) (bvadd (bvmul ((_ sign_extend 32) tile) (_ bv32 64)) ((_ sign_extend 32) place))) (bvsle (_ bv0 32) (bvadd (bvmul tile (_ bv32 32)) place)))))
(check-sat)

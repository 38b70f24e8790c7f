; index.no_wrap.128x4_bits_byte
; 128x4, 32-bit vectors: for a tile below 4194304, tile*512 + place equals the 64-bit one.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const tile (_ BitVec 32))
(declare-const place (_ BitVec 32))
(assert (and (bvsle (_ bv0 32) tile) (bvslt tile (_ bv4194304 32))))
(assert (and (bvsle (_ bv0 32) place) (bvslt place (_ bv512 32))))
(assert (not (and (= ((_ sign_extend 32) (bvadd (bvmul tile (_ bv512 32)) place)) (bvadd (bvmul ((_ sign_extend 32) tile) (_ bv512 64)) ((_ sign_extend 32) place))) (bvsle (_ bv0 32) (bvadd (bvmul tile (_ bv512 32)) place)))))
(check-sat)

; index.no_wrap.8x4_bits_parts
; 8x4, 32-bit vectors: tile row, tile column and place equal the 64-bit ones.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const row (_ BitVec 32))
(declare-const block (_ BitVec 32))
(assert (bvsle (_ bv0 32) row))
(assert (bvsle (_ bv0 32) block))
(assert (not (and (= ((_ sign_extend 32) (bvsdiv row (_ bv8 32))) (bvsdiv ((_ sign_extend 32) row) (_ bv8 64))) (= ((_ sign_extend 32) (bvsdiv block (_ bv4 32))) (bvsdiv ((_ sign_extend 32) block) (_ bv4 64))) (= ((_ sign_extend 32) (bvadd (bvmul (bvsrem row (_ bv8 32)) (_ bv4 32)) (bvsrem block (_ bv4 32)))) (bvadd (bvmul (bvsrem ((_ sign_extend 32) row) (_ bv8 64)) (_ bv4 64)) (bvsrem ((_ sign_extend 32) block) (_ bv4 64)))))))
(check-sat)

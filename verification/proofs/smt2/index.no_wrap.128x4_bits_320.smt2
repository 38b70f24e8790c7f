; index.no_wrap.128x4_bits_320
; 128x4, 320 blocks per row, 32-bit vectors: below row 6710784 the index equals the 64-bit one.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const row (_ BitVec 32))
(declare-const block (_ BitVec 32))
(assert (and (bvsle (_ bv0 32) row) (bvslt row (_ bv6710784 32))))
(assert (and (bvsle (_ bv0 32) block) (bvslt block (_ bv320 32))))
(assert (not (and (= ((_ sign_extend 32) (bvadd (bvmul (bvadd (bvmul (bvsdiv row (_ bv128 32)) (_ bv80 32)) (bvsdiv block (_ bv4 32))) (_ bv512 32)) (bvadd (bvadd (bvmul (bvsrem row (_ bv32 32)) (_ bv16 32)) (bvmul (bvsdiv (bvsrem row (_ bv128 32)) (_ bv32 32)) (_ bv4 32))) (bvsrem block (_ bv4 32))))) (bvadd (bvmul (bvadd (bvmul (bvsdiv ((_ sign_extend 32) row) (_ bv128 64)) (_ bv80 64)) (bvsdiv ((_ sign_extend 32) block) (_ bv4 64))) (_ bv512 64)) (bvadd (bvadd (bvmul (bvsrem ((_ sign_extend 32) row) (_ bv32 64)) (_ bv16 64)) (bvmul (bvsdiv (bvsrem ((_ sign_extend 32) row) (_ bv128 64)) (_ bv32 64)) (_ bv4 64))) (bvsrem ((_ sign_extend 32) block) (_ bv4 64))))) (bvsle (_ bv0 32) (bvadd (bvmul (bvadd (bvmul (bvsdiv row (_ bv128 32)) (_ bv80 32)) (bvsdiv block (_ bv4 32))) (_ bv512 32)) (bvadd (bvadd (bvmul (bvsrem row (_ bv32 32)) (_ bv16 32)) (bvmul (bvsdiv (bvsrem row (_ bv128 32)) (_ bv32 32)) (_ bv4 32))) (bvsrem block (_ bv4 32))))))))
(check-sat)

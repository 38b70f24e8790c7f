; index.no_wrap.128x4_bits_180_wraps
; 128x4, 180 blocks per row: in row 11930368 it wraps to a negative number.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const row (_ BitVec 32))
(declare-const block (_ BitVec 32))
(assert (= row (_ bv11930368 32)))
(assert (= block (_ bv179 32)))
(assert (not (bvslt (bvadd (bvmul (bvadd (bvmul (bvsdiv row (_ bv128 32)) (_ bv45 32)) (bvsdiv block (_ bv4 32))) (_ bv512 32)) (bvadd (bvadd (bvmul (bvsrem row (_ bv32 32)) (_ bv16 32)) (bvmul (bvsdiv (bvsrem row (_ bv128 32)) (_ bv32 32)) (_ bv4 32))) (bvsrem block (_ bv4 32)))) (_ bv0 32))))
(check-sat)

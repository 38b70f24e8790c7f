; index.no_wrap.launch.grid_y_words
; csrc/quantize_launch.cuh: no part of `ceil_div(padded_blocks, kMostThreads)` leaves its type, up
;   to the value 32,768.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_k (_ BitVec 64))
(assert (bvsle (_ bv16 64) call_k))
(assert (bvsle call_k (_ bv134217728 64)))
(assert (not (and (not (bvsaddo call_k (_ bv64 64))) (not (bvssubo (bvadd call_k (_ bv64 64)) (_ bv1 64))) (bvsle (_ bv0 64) (bvsub (bvadd call_k (_ bv64 64)) (_ bv1 64))) (bvsle (_ bv0 64) (_ bv64 64)) (not (= (_ bv64 64) (_ bv0 64))) (not (bvsmulo (bvudiv (bvsub (bvadd call_k (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64))) (not (bvsaddo (bvmul (bvudiv (bvsub (bvadd call_k (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv256 64))) (not (bvssubo (bvadd (bvmul (bvudiv (bvsub (bvadd call_k (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv256 64)) (_ bv1 64))) (bvsle (_ bv0 64) (bvsub (bvadd (bvmul (bvudiv (bvsub (bvadd call_k (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv256 64)) (_ bv1 64))) (bvsle (_ bv0 64) (_ bv256 64)) (not (= (_ bv256 64) (_ bv0 64))) (bvsle (_ bv0 64) (bvudiv (bvsub (bvadd (bvmul (bvudiv (bvsub (bvadd call_k (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv256 64)) (_ bv1 64)) (_ bv256 64))) (not (bvslt (_ bv65535 64) (bvudiv (bvsub (bvadd (bvmul (bvudiv (bvsub (bvadd call_k (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv256 64)) (_ bv1 64)) (_ bv256 64)))))))
(check-sat)

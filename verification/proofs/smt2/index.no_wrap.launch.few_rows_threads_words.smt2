; index.no_wrap.launch.few_rows_threads_words
; csrc/quantize_launch.cuh: no part of `round_up(scale_words(call.k) * kTileBlocks, 32)` leaves its
;   type, up to the value 512.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const call_k (_ BitVec 32))
(assert (bvsle (_ bv16 64) ((_ sign_extend 32) call_k)))
(assert (bvsle ((_ sign_extend 32) call_k) (_ bv8192 64)))
(assert (not (and (not (bvsaddo ((_ sign_extend 32) call_k) (_ bv64 64))) (not (bvssubo (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64))) (bvsle (_ bv0 64) (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64))) (bvsle (_ bv0 64) (_ bv64 64)) (not (= (_ bv64 64) (_ bv0 64))) (not (bvsmulo (bvudiv (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64))) (not (bvsaddo (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv32 64))) (not (bvssubo (bvadd (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv32 64)) (_ bv1 64))) (bvsle (_ bv0 64) (bvsub (bvadd (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv32 64)) (_ bv1 64))) (bvsle (_ bv0 64) (_ bv32 64)) (not (= (_ bv32 64) (_ bv0 64))) (not (bvsmulo (bvudiv (bvsub (bvadd (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv32 64)) (_ bv1 64)) (_ bv32 64)) (_ bv32 64))) (bvsle (_ bv0 64) (bvmul (bvudiv (bvsub (bvadd (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv32 64)) (_ bv1 64)) (_ bv32 64)) (_ bv32 64))) (not (bvslt (_ bv512 64) (bvmul (bvudiv (bvsub (bvadd (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) call_k) (_ bv64 64)) (_ bv1 64)) (_ bv64 64)) (_ bv4 64)) (_ bv32 64)) (_ bv1 64)) (_ bv32 64)) (_ bv32 64)))))))
(check-sat)

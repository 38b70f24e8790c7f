; index.no_wrap.routing.last_padded_offset_words
; include/nvfp4_moe/routing.h: no part of `padded_offset + static_cast<int32_t>(round_up(count,
;   kTileRows))` leaves its type, up to the value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const count (_ BitVec 32))
(declare-const padded_offset (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) count)))
(assert (bvsle ((_ sign_extend 32) count) (_ bv2147417984 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) padded_offset)))
(assert (bvsle ((_ sign_extend 32) padded_offset) (bvsub (_ bv2147418111 64) (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) count) (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64)))))
(assert (not (and (not (bvsaddo ((_ sign_extend 32) count) (_ bv128 64))) (not (bvssubo (bvadd ((_ sign_extend 32) count) (_ bv128 64)) (_ bv1 64))) (bvsle (_ bv0 64) (bvsub (bvadd ((_ sign_extend 32) count) (_ bv128 64)) (_ bv1 64))) (bvsle (_ bv0 64) (_ bv128 64)) (not (= (_ bv128 64) (_ bv0 64))) (not (bvsmulo (bvudiv (bvsub (bvadd ((_ sign_extend 32) count) (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64))) (= ((_ sign_extend 32) ((_ extract 31 0) (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) count) (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64)))) (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) count) (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64))) (not (bvsaddo padded_offset ((_ extract 31 0) (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) count) (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64))))) (bvsle (_ bv0 32) (bvadd padded_offset ((_ extract 31 0) (bvmul (bvudiv (bvsub (bvadd ((_ sign_extend 32) count) (_ bv128 64)) (_ bv1 64)) (_ bv128 64)) (_ bv128 64))))))))
(check-sat)

; index.no_wrap.quantize.few_padding_first_words
; csrc/few_rows_kernel.cuh: no part of `(row - place.first_row) * warps + warp` leaves its type, up
;   to the value 65,535.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const row (_ BitVec 32))
(declare-const place_first_row (_ BitVec 32))
(declare-const warps (_ BitVec 32))
(declare-const warp (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) row)))
(assert (bvsle ((_ sign_extend 32) row) (_ bv4095 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) place_first_row)))
(assert (bvsle ((_ sign_extend 32) place_first_row) ((_ sign_extend 32) row)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) warps)))
(assert (bvsle ((_ sign_extend 32) warps) (_ bv16 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) warp)))
(assert (bvsle ((_ sign_extend 32) warp) (bvsub ((_ sign_extend 32) warps) (_ bv1 64))))
(assert (not (and (not (bvssubo row place_first_row)) (not (bvsmulo (bvsub row place_first_row) warps)) (not (bvsaddo (bvmul (bvsub row place_first_row) warps) warp)) (bvsle (_ bv0 32) (bvadd (bvmul (bvsub row place_first_row) warps) warp)))))
(check-sat)

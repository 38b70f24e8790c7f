; index.no_wrap.quantize.few_padding_step_words
; csrc/few_rows_kernel.cuh: no part of `word + owned * warps` leaves its type, up to the value
;   262,271.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const word (_ BitVec 32))
(declare-const owned (_ BitVec 32))
(declare-const warps (_ BitVec 32))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) word)))
(assert (bvsle ((_ sign_extend 32) word) (_ bv127 64)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) owned)))
(assert (bvsle ((_ sign_extend 32) owned) (_ bv16384 64)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) warps)))
(assert (bvsle ((_ sign_extend 32) warps) (_ bv16 64)))
(assert (not (and (not (bvsmulo owned warps)) (not (bvsaddo word (bvmul owned warps))) (bvsle (_ bv0 32) (bvadd word (bvmul owned warps))))))
(check-sat)

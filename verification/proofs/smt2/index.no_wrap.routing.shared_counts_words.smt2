; index.no_wrap.routing.shared_counts_words
; csrc/routing.cu: no part of `static_cast<size_t>(warps + 3) * static_cast<size_t>(experts) * 4`
;   leaves its type, up to the value 637,534,132.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const warps (_ BitVec 32))
(declare-const experts (_ BitVec 32))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) warps)))
(assert (bvsle ((_ sign_extend 32) warps) (_ bv16 64)))
(assert (bvsle (_ bv1 64) ((_ sign_extend 32) experts)))
(assert (bvsle ((_ sign_extend 32) experts) (_ bv8388607 64)))
(assert (not (and (not (bvsaddo warps (_ bv3 32))) (bvsle (_ bv0 32) (bvadd warps (_ bv3 32))) (bvsle (_ bv0 32) experts) (not (bvumulo ((_ sign_extend 32) (bvadd warps (_ bv3 32))) ((_ sign_extend 32) experts))) (not (bvumulo (bvmul ((_ sign_extend 32) (bvadd warps (_ bv3 32))) ((_ sign_extend 32) experts)) (_ bv4 64))))))
(check-sat)

; index.no_wrap.routing.segment_words
; include/nvfp4_moe/routing.h: no part of `worker * length` leaves its type, up to the value
;   4,611,686,080,704,413,634.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const worker (_ BitVec 64))
(declare-const length (_ BitVec 64))
(assert (bvsle (_ bv0 64) worker))
(assert (bvsle worker (_ bv2147483646 64)))
(assert (bvsle (_ bv0 64) length))
(assert (bvsle length (_ bv2147483679 64)))
(assert (not (and (not (bvsmulo worker length)) (bvsle (_ bv0 64) (bvmul worker length)))))
(check-sat)

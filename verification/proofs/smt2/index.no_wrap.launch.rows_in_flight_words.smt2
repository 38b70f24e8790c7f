; index.no_wrap.launch.rows_in_flight_words
; csrc/quantize_launch.cuh: no part of `rows * splits * slabs` leaves its type, up to the value
;   4,611,474,912,194,887,680.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const rows (_ BitVec 64))
(declare-const splits (_ BitVec 64))
(declare-const slabs (_ BitVec 64))
(assert (bvsle (_ bv0 64) rows))
(assert (bvsle rows (_ bv2147418111 64)))
(assert (bvsle (_ bv1 64) splits))
(assert (bvsle splits (_ bv32768 64)))
(assert (bvsle (_ bv1 64) slabs))
(assert (bvsle slabs (_ bv65535 64)))
(assert (not (and (not (bvsmulo rows splits)) (not (bvsmulo (bvmul rows splits) slabs)) (bvsle (_ bv0 64) (bvmul (bvmul rows splits) slabs)))))
(check-sat)

; index.no_wrap.quantize.few_scale_word_words
; csrc/few_rows_kernel.cuh: no part of `row_byte + block / kTileBlocks * (kTileRows * kTileBlocks)`
;   leaves its type, up to the value 144,115,188,075,920,896.
(set-info :status unsat)
(set-logic QF_BV)
(declare-const row_byte (_ BitVec 64))
(declare-const block (_ BitVec 32))
(assert (bvsle (_ bv0 64) row_byte))
(assert (bvsle row_byte (_ bv144115188075855872 64)))
(assert (bvsle (_ bv0 64) ((_ sign_extend 32) block)))
(assert (bvsle ((_ sign_extend 32) block) (_ bv511 64)))
(assert (not (and (bvsle (_ bv0 32) block) (bvsle (_ bv0 32) (_ bv4 32)) (not (= (_ bv4 32) (_ bv0 32))) (not (bvsmulo (bvudiv block (_ bv4 32)) (_ bv512 32))) (not (bvsaddo row_byte ((_ sign_extend 32) (bvmul (bvudiv block (_ bv4 32)) (_ bv512 32))))) (bvsle (_ bv0 64) (bvadd row_byte ((_ sign_extend 32) (bvmul (bvudiv block (_ bv4 32)) (_ bv512 32))))))))
(check-sat)

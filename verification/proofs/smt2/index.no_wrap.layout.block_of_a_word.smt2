; index.no_wrap.layout.block_of_a_word
; include/nvfp4_moe/swizzle.h: no part of `word * kTileBlocks + i` leaves its type, up to the value
;   134,217,727.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const word Int)
(declare-const i Int)
(assert (<= 0 word))
(assert (<= word 33554431))
(assert (<= 0 i))
(assert (<= i 3))
(assert (not (and (<= (- 9223372036854775808) (* word 4)) (<= (* word 4) 9223372036854775807) (<= (- 9223372036854775808) i) (<= i 9223372036854775807) (<= (- 9223372036854775808) (+ (* word 4) i)) (<= (+ (* word 4) i) 9223372036854775807) (<= 0 (+ (* word 4) i)))))
(check-sat)

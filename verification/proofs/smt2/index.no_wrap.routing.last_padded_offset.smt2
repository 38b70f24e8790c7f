; index.no_wrap.routing.last_padded_offset
; include/nvfp4_moe/routing.h: no part of `padded_offset + static_cast<int32_t>(round_up(count,
;   kTileRows))` leaves its type, up to the value 2,147,418,111.
(set-info :status unsat)
(set-logic QF_NIA)
(declare-const count Int)
(declare-const padded_offset Int)
(assert (<= 0 count))
(assert (<= count 2147417984))
(assert (<= 0 padded_offset))
(assert (<= padded_offset (- 2147418111 (* (div (- (+ count 128) 1) 128) 128))))
(assert (not (and (<= (- 9223372036854775808) count) (<= count 9223372036854775807) (<= (- 9223372036854775808) (+ count 128)) (<= (+ count 128) 9223372036854775807) (<= (- 9223372036854775808) (- (+ count 128) 1)) (<= (- (+ count 128) 1) 9223372036854775807) (<= (- 9223372036854775808) (div (- (+ count 128) 1) 128)) (<= (div (- (+ count 128) 1) 128) 9223372036854775807) (<= 0 (- (+ count 128) 1)) (< 0 128) (<= (- 9223372036854775808) (* (div (- (+ count 128) 1) 128) 128)) (<= (* (div (- (+ count 128) 1) 128) 128) 9223372036854775807) (<= (- 2147483648) (* (div (- (+ count 128) 1) 128) 128)) (<= (* (div (- (+ count 128) 1) 128) 128) 2147483647) (<= (- 2147483648) (+ padded_offset (* (div (- (+ count 128) 1) 128) 128))) (<= (+ padded_offset (* (div (- (+ count 128) 1) 128) 128)) 2147483647) (<= 0 (+ padded_offset (* (div (- (+ count 128) 1) 128) 128))))))
(check-sat)

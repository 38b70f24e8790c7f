// Quantization of ragged or masked expert rows to NVFP4, one 16-element block at a time.
//
// Recipe R1 (vLLM `nvfp4_utils.cuh`), g = the expert's global encode scale, a = largest magnitude of the block, NaN
// elements left out:
//
//     scale byte  s = e4m3(g * (a * fl(1/6)))
//     multiplier  m = s == 0 ? 0 : 1 / (s * (1 / g))
//     code        c = e2m1(x * m)
//
// Every operation is one float32 operation, rounded to nearest even; the two reciprocals are those of the arithmetic
// (arithmetic.h). In the fused form x = round_to_input_type(silu(gate) * up).
//
// A row writes K/2 bytes of codes and 4*ceil(K/64) scale bytes, those past K/16 zero. Rows that no expert owns write
// nothing. Row padding is the business of `zero_row_padding`.
#pragma once

#include "arithmetic.h"
#include "layouts.h"

namespace nvfp4_moe {

// Everything a call is told. Row counts are 64 bits wide; K and the number of experts fit 32.
struct QuantizeArguments {
  const uint16_t* input;             // (source rows, K), or (source rows, 2K) gate first; rows `input_stride` apart
  const float* global_encode_scale;  // (E,)
  const int32_t* expert_offsets;     // ragged: (E + 1,); null in the masked form
  const int32_t* blockscale_offsets; // ragged: (E + 1,), in rows
  const int32_t* masked_m;           // masked: (E,) rows that each expert owns; null in the ragged form
  const int32_t* source_rows;        // ragged: (rows,) row of `input` that each routed row is read from, or null
  uint8_t* packed;                   // (rows, K / 2)
  uint8_t* block_scale;              // (scale_rows, 4 * ceil(K / 64)), swizzled_128x4
  int64_t rows;                      // ragged: routed rows at most; masked: E * rows_per_expert
  int64_t rows_per_expert;           // masked form only
  int64_t input_stride;              // in elements
  int64_t num_source_rows;
  int64_t scale_rows;
  int32_t k;
  int32_t experts;
};

// What the blocks of one row have in common.
struct RowPlace {
  int32_t expert;      // -1: nobody owns the row, nothing may be written
  int64_t scale_row;   // first scale row of the expert's region
  int64_t row_in_expert;
  int64_t source;      // row of the input, or -1: the index is outside the input, and the row counts as zeros
};

NVFP4_HD RowPlace nobodys_row() { return RowPlace{-1, 0, 0, -1}; }

NVFP4_HD RowPlace masked_row_place(const QuantizeArguments& call, int64_t row) {
  const int64_t expert = row / call.rows_per_expert;
  const int64_t inside = row % call.rows_per_expert;
  if (inside >= call.masked_m[expert]) return nobodys_row();
  return RowPlace{static_cast<int32_t>(expert), expert * round_up(call.rows_per_expert, kTileRows), inside, row};
}

// Ragged form, once the owner is known. A row whose scales would lie outside the buffer is nobody's: memory that the
// caller did not give is never written, whatever the offsets say.
NVFP4_HD RowPlace ragged_row_place(const QuantizeArguments& call, int64_t row, int32_t expert) {
  if (expert < 0) return nobodys_row();
  const int64_t inside = row - call.expert_offsets[expert];
  const int64_t scale_row = call.blockscale_offsets[expert];
  if (scale_row < 0 || scale_row + inside / kTileRows * kTileRows + kTileRows > call.scale_rows) return nobodys_row();
  int64_t source = row;
  if (call.source_rows != nullptr) {
    source = call.source_rows[row];
    if (source < 0 || source >= call.num_source_rows) source = -1;
  }
  return RowPlace{expert, scale_row, inside, source};
}

NVFP4_HD RowPlace row_place(const QuantizeArguments& call, int64_t row) {
  if (call.masked_m != nullptr) return masked_row_place(call, row);
  return ragged_row_place(call, row, expert_of_row(call.expert_offsets, call.experts, row));
}

NVFP4_HD int64_t scale_byte(const RowPlace& place, int64_t block, int64_t words) {
  return place.scale_row * words * kTileBlocks + swizzled_128x4(place.row_in_expert, block, words);
}

// --- one block -----------------------------------------------------------------------------------------------------

struct QuantizedBlock {
  uint64_t packed;  // 16 codes, element 0 in the lowest nibble
  uint8_t scale;
};

// The largest magnitude, NaN left out; NaN if nothing else is there. Magnitudes of one 16-bit type order as integers.
template <class Type>
NVFP4_HD float block_amax(const uint16_t (&x)[kBlockSize]) {
  int16_t largest = -1;
  for (int i = 0; i < kBlockSize; ++i) {
    const int16_t magnitude = static_cast<int16_t>(x[i] & 0x7FFF);
    const int16_t number = magnitude > static_cast<int16_t>(Type::kInfinity) ? int16_t{-1} : magnitude;
    largest = number > largest ? number : largest;
  }
  return largest < 0 ? float_of(kQuietNan) : Type::to_float(static_cast<uint16_t>(largest));
}

struct BlockScale {
  uint8_t byte;
  float multiplier;
};

template <class Arithmetic>
NVFP4_HD BlockScale block_scale_of(float amax, float global_encode_scale, float global_reciprocal,
                                   const Arithmetic& arithmetic) {
  const uint8_t byte = encode_e4m3(global_encode_scale * (amax * float_of(kReciprocalOf6)));
  const float scale = decode_e4m3(byte);
  const float multiplier = scale == 0.0f ? 0.0f : arithmetic.reciprocal(scale * global_reciprocal);
  return BlockScale{byte, multiplier};
}

// Eight codes, one a byte, become one 32-bit word: nibbles move together in pairs, then pairs of pairs.
NVFP4_HD uint32_t pack_codes(const uint8_t* codes) {
  uint64_t word;
  memcpy(&word, codes, sizeof word);
  word = (word | word >> 4) & 0x00FF00FF00FF00FFull;
  word = (word | word >> 8) & 0x0000FFFF0000FFFFull;
  return static_cast<uint32_t>(word | word >> 16);
}

template <class Type, class Arithmetic>
NVFP4_HD QuantizedBlock quantize_block(const uint16_t (&x)[kBlockSize], float global_encode_scale,
                                       float global_reciprocal, const Arithmetic& arithmetic) {
  const BlockScale scale =
      block_scale_of(block_amax<Type>(x), global_encode_scale, global_reciprocal, arithmetic);
  uint8_t codes[kBlockSize];
  for (int i = 0; i < kBlockSize; ++i) {
    codes[i] = static_cast<uint8_t>(encode_e2m1(Type::to_float(x[i]) * scale.multiplier));
  }
  return QuantizedBlock{static_cast<uint64_t>(pack_codes(codes + 8)) << 32 | pack_codes(codes), scale.byte};
}

// The block's values: as they are, or silu(gate) * up rounded to the input type.
template <class Type, bool kFused, class Arithmetic>
NVFP4_HD void load_block(const QuantizeArguments& call, int64_t source, int64_t block, const Arithmetic& arithmetic,
                         uint16_t (&x)[kBlockSize]) {
  if (source < 0) {
    memset(x, 0, sizeof x);
    return;
  }
  const uint16_t* row = call.input + source * call.input_stride;
  memcpy(x, row + block * kBlockSize, sizeof x);
  if constexpr (kFused) {
    uint16_t up[kBlockSize];
    memcpy(up, row + call.k + block * kBlockSize, sizeof up);
    for (int i = 0; i < kBlockSize; ++i) {
      x[i] = Type::from_float(arithmetic.template silu<Type>(x[i]) * Type::to_float(up[i]));
    }
  }
}

// --- bodies --------------------------------------------------------------------------------------------------------

// Block `block` of a row in [0, 4 * ceil(K / 64)): codes and scale, or the zero byte that pads K.
template <class Type, bool kFused, class Arithmetic, class Writer>
NVFP4_HD void quantize_row_block(const QuantizeArguments& call, const RowPlace& place, int64_t row, int64_t block,
                                 float global_reciprocal, const Arithmetic& arithmetic, const Writer& write) {
  const int64_t words = scale_words(call.k);
  uint8_t scale = 0;
  if (block < call.k / kBlockSize) {
    uint16_t x[kBlockSize];
    load_block<Type, kFused>(call, place.source, block, arithmetic, x);
    const QuantizedBlock result =
        quantize_block<Type>(x, call.global_encode_scale[place.expert], global_reciprocal, arithmetic);
    write(call.packed + row * (call.k / 2) + block * (kBlockSize / 2), result.packed);
    scale = result.scale;
  }
  write(call.block_scale + scale_byte(place, block, words), scale);
}

// Row padding of one expert: the rows of its last tile that it does not own. One call covers, in one word column of
// that tile, the 16 bytes that rows lane, lane + 32, lane + 64 and lane + 96 share.
template <class Writer>
NVFP4_HD void zero_row_padding(const QuantizeArguments& call, int32_t expert, int64_t word, int64_t lane,
                               const Writer& write) {
  int64_t owned;
  int64_t scale_row;
  if (call.masked_m != nullptr) {
    owned = call.masked_m[expert];
    scale_row = expert * round_up(call.rows_per_expert, kTileRows);
  } else {
    owned = static_cast<int64_t>(call.expert_offsets[expert + 1]) - call.expert_offsets[expert];
    scale_row = call.blockscale_offsets[expert];
  }
  if (owned <= 0 || owned % kTileRows == 0) return;
  const int64_t tile = owned / kTileRows;
  if (scale_row < 0 || scale_row + (tile + 1) * kTileRows > call.scale_rows) return;
  const int64_t words = scale_words(call.k);
  const int64_t first = (scale_row + tile * kTileRows) * words + word * kTileRows + lane * kTileBlocks;
  for (int64_t group = 0; group < kTileRows / kTileLanes; ++group) {
    if (lane + group * kTileLanes < owned % kTileRows) continue;
    write(call.block_scale + (first + group) * kTileBlocks, uint32_t{0});
  }
}

}  // namespace nvfp4_moe

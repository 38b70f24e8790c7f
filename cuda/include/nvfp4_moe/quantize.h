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
// nothing. Row padding in the sectors of 32 bytes where owned rows have scales is zeroed with these, since memory reads a
// sector that is written in part before it writes it; the rest is the business of `zero_padding_piece`.
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
  int64_t num_source_rows;
  int64_t scale_rows;
  int32_t input_stride;              // from row to row, in elements
  int32_t k;
  int32_t experts;
};

// Who owns a row, and which rows around it are owned alike. Row numbers are those of the call (of `packed`).
struct Owner {
  int32_t expert;     // -1: nobody, nothing may be written
  int32_t first_row;  // the expert's first row
  int32_t end_row;    // rows [first_row, end_row) may be written
  int32_t next_row;   // the row at which ownership has to be looked up again
  int64_t scale_row;  // first scale row of the expert's region, a multiple of the tile
};

constexpr int32_t kLastRow = 0x7FFFFFFF;

NVFP4_HD Owner nobody(int32_t next_row) { return Owner{-1, 0, 0, next_row, 0}; }

// Rows whose scales would lie outside the buffer may not be written, whatever the offsets say: memory that the caller
// did not give stays untouched.
NVFP4_HD Owner clipped_owner(const QuantizeArguments& call, int32_t expert, int32_t first, int32_t end, int64_t scale_row) {
  const int64_t left = scale_row < 0 ? 0 : call.scale_rows - scale_row;
  const int64_t fitting = left < 0 ? 0 : left / kTileRows * kTileRows;
  const int32_t clipped = end - first < fitting ? end : static_cast<int32_t>(first + fitting);
  return Owner{expert, first, clipped, end, scale_row};
}

NVFP4_HD Owner ragged_owner(const QuantizeArguments& call, int32_t expert) {
  if (expert < 0) return nobody(call.expert_offsets[0]);              // before the first expert's rows
  if (expert >= call.experts) return nobody(kLastRow);                // behind the last one's
  return clipped_owner(call, expert, call.expert_offsets[expert], call.expert_offsets[expert + 1],
                       call.blockscale_offsets[expert]);
}

NVFP4_HD Owner masked_owner(const QuantizeArguments& call, int32_t expert) {
  const auto first = static_cast<int32_t>(expert * call.rows_per_expert);
  const int32_t rows = call.masked_m[expert];
  const int32_t owned = rows < call.rows_per_expert ? rows : static_cast<int32_t>(call.rows_per_expert);
  Owner owner = clipped_owner(call, expert, first, first + owned, expert * round_up(call.rows_per_expert, kTileRows));
  owner.next_row = static_cast<int32_t>(first + call.rows_per_expert);
  return owner;
}

NVFP4_HD Owner owner_of_row(const QuantizeArguments& call, int64_t row) {
  if (call.masked_m != nullptr) return masked_owner(call, static_cast<int32_t>(row / call.rows_per_expert));
  return ragged_owner(call, expert_of_row(call.expert_offsets, call.experts, row));
}

// The row of the input that a row is read from; -1: the index lies outside, and the row counts as zeros.
NVFP4_HD int64_t source_row(const QuantizeArguments& call, int64_t row) {
  if (call.source_rows == nullptr) return row;
  const int64_t source = call.source_rows[row];
  return source >= 0 && source < call.num_source_rows ? source : -1;
}

// Scale byte of block 0 of a row; the others lie `block_byte_128x4` from it.
NVFP4_HD int64_t region_byte(const Owner& owner, int64_t words) { return owner.scale_row * (words * kTileBlocks); }
NVFP4_HD int64_t row_scale_byte(const Owner& owner, int32_t row, int64_t words) {
  return region_byte(owner, words) + row_byte_128x4(row - owner.first_row, words);
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
  const uint16_t* row = call.input + source * int64_t{call.input_stride};
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

// Row padding that a row zeroes along with its scales: the words behind its own in the 16 bytes that it shares with the
// rows 32, 64 and 96 behind it, if no owned row comes there, and, for an expert's last row at an even place, the 16 bytes
// behind those, if none of their rows is owned.
struct PaddingBeside {
  int32_t words_behind;  // 0 to 3
  bool next_piece;
};

// `row`: in the expert; `owned`: rows of the expert.
NVFP4_HD PaddingBeside padding_beside(int32_t row, int32_t owned) {
  const auto in_tile = static_cast<int32_t>(static_cast<uint32_t>(row) % kTileRows);
  return PaddingBeside{row + kTileLanes >= owned ? kTileRows / kTileLanes - 1 - in_tile / kTileLanes : 0,
                       row + 1 == owned && in_tile < kTileLanes && in_tile % 2 == 0};
}

// Block `block` of a row in [0, 4 * ceil(K / 64)): codes and scale, or the zero byte that pads K.
template <class Type, bool kFused, class Arithmetic, class Writer>
NVFP4_HD void quantize_row_block(const QuantizeArguments& call, const Owner& owner, int64_t row, int64_t source,
                                 int64_t block, float global_reciprocal, const Arithmetic& arithmetic,
                                 const Writer& write) {
  const int64_t words = scale_words(call.k);
  uint8_t scale = 0;
  if (block < call.k / kBlockSize) {
    uint16_t x[kBlockSize];
    load_block<Type, kFused>(call, source, block, arithmetic, x);
    const QuantizedBlock result =
        quantize_block<Type>(x, call.global_encode_scale[owner.expert], global_reciprocal, arithmetic);
    write(call.packed + row * (call.k / 2) + block * (kBlockSize / 2), result.packed);
    scale = result.scale;
  }
  uint8_t* at = call.block_scale + row_scale_byte(owner, static_cast<int32_t>(row), words) + block_byte_128x4(block);
  write(at, scale);
  const PaddingBeside beside =
      padding_beside(static_cast<int32_t>(row) - owner.first_row, owner.end_row - owner.first_row);
  for (int32_t word = 1; word <= beside.words_behind; ++word) write(at + kTileBlocks * word, uint8_t{0});
  if (!beside.next_piece) return;
  for (int32_t word = 0; word < kPieceWords; ++word) write(at + kPieceBytes + kTileBlocks * word, uint8_t{0});
}

// Row padding of one expert: pieces of 16 bytes in its last tile that no row zeroes.
struct PaddingPlace {
  int64_t tile_byte;   // first byte of the tile row's words
  int32_t first_lane;  // of each word column the pieces [first_lane, 32) are to be zeroed
};

// `owned`: rows of the expert. Without a row there is no padding, and from 31 rows of a tile on it all lies beside rows.
NVFP4_HD int32_t first_empty_lane(int32_t owned) {
  const int32_t in_tile = owned > 0 ? owned % kTileRows : 0;
  return in_tile == 0 || in_tile >= kTileLanes ? kTileLanes : static_cast<int32_t>(round_up(in_tile, 2));
}

NVFP4_HD PaddingPlace padding_place(const QuantizeArguments& call, int32_t expert) {
  const Owner owner = call.masked_m != nullptr ? masked_owner(call, expert) : ragged_owner(call, expert);
  const int32_t owned = owner.end_row > owner.first_row ? owner.end_row - owner.first_row : 0;
  const int64_t tile_row = owner.scale_row + owned - owned % kTileRows;
  return PaddingPlace{tile_row * (scale_words(call.k) * kTileBlocks), first_empty_lane(owned)};
}

struct alignas(16) FourWords {
  uint32_t word[kPieceWords];
};

// In one word column of the tile, the 16 bytes that rows lane, lane + 32, lane + 64 and lane + 96 share.
template <class Writer>
NVFP4_HD void zero_padding_piece(const QuantizeArguments& call, const PaddingPlace& place, int32_t word, int32_t lane,
                                 const Writer& write) {
  write(call.block_scale + place.tile_byte + int64_t{word} * (kTileRows * kTileBlocks) + lane * kPieceBytes,
        FourWords{{0, 0, 0, 0}});
}

}  // namespace nvfp4_moe

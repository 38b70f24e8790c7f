// The grouped GEMM's arithmetic and indices: operands, scale bytes, the order of K, tiles of rows.
//
//     out[r, n] = round(alpha[e] * sum over k of A[r, k] * B[e, n, k])     r a routed row of expert e
//
// A and B are the dequantized operands, code times block scale. Such a product has at most six significant bits and lies
// in [2^-10, 2688], so it is exact in bfloat16; a product of two is exact in float32. Everything below keeps that: the
// float32 sum, the product with alpha and the last rounding are the only roundings.
//
// Weights are scaled while they go to the tensor cores. A code's bits stand in a bfloat16 so that the value is
// 2^-126 times the code's (its subnormals are E2M1's); the scale carries 2^118, which stays finite, and the rows of A
// the missing 2^8. All three are powers of two and change no rounding.
#pragma once

#include "formats.h"
#include "layouts.h"

namespace nvfp4_moe {

struct GemmArguments {
  const uint8_t* a;                   // (rows, K / 2) codes
  const uint8_t* a_scale;             // (scale rows, 4 * ceil(K / 64)), swizzled_128x4, an expert's rows from its offset
  const uint8_t* b;                   // (E, N, K / 2) codes
  const uint8_t* b_scale;             // (E, round_up(N, 128), 4 * ceil(K / 64)), swizzled_128x4 each
  const float* alphas;                // (E,)
  const int32_t* problem_sizes;       // (E, 3): M, N, K; M alone is read
  const int32_t* expert_offsets;      // (E,) first row of each expert
  const int32_t* blockscale_offsets;  // (E,) first scale row, multiples of 128
  uint16_t* out;                      // (rows, N) bfloat16 or float16
  int64_t rows;
  int64_t scale_rows;
  int32_t n;
  int32_t k;
  int32_t experts;
};

// --- rows and scale bytes ------------------------------------------------------------------------------------------

// The rows of an expert; none where they, or their scales, would lie outside the buffers.
struct ExpertRows {
  int32_t first;
  int32_t count;
  int32_t scale_row;
};

NVFP4_HD ExpertRows expert_rows(const GemmArguments& call, int32_t expert) {
  const ExpertRows rows{call.expert_offsets[expert], call.problem_sizes[int64_t{3} * expert],
                        call.blockscale_offsets[expert]};
  const bool inside = rows.first >= 0 && rows.count >= 0 && int64_t{rows.first} + rows.count <= call.rows;
  const bool scaled = rows.scale_row >= 0 && rows.scale_row % kTileRows == 0 &&
                      rows.scale_row + round_up(rows.count, kTileRows) <= call.scale_rows;
  return inside && scaled ? rows : ExpertRows{0, 0, 0};
}

NVFP4_HD int64_t a_scale_byte(const GemmArguments& call, const ExpertRows& rows, int32_t row_of_expert, int32_t block) {
  const int64_t words = scale_words(call.k);
  return rows.scale_row * (words * kTileBlocks) + swizzled_128x4(row_of_expert, block, words);
}

// Bytes of one expert's weight scales: N and K padded, as the writer pads them.
NVFP4_HD int64_t b_scale_slab(int64_t n, int64_t k) { return round_up(n, kTileRows) * scale_words(k) * kTileBlocks; }

NVFP4_HD int64_t b_scale_byte(const GemmArguments& call, int32_t expert, int32_t column, int32_t block) {
  return expert * b_scale_slab(call.n, call.k) + swizzled_128x4(column, block, scale_words(call.k));
}

// --- operands ------------------------------------------------------------------------------------------------------

constexpr float kWeightScaleFactor = 0x1p118f;
constexpr float kRowFactor = 0x1p8f;

// Codes i and i + 4 of a word of eight, as two bfloat16 of 2^-126 times the code's value. `i` in [0, 4).
// A masked code times 2^12 + 2^6 (or 2^8 + 2^2) has its sign at bit 15 and its magnitude at bits 6 to 8.
NVFP4_HD uint32_t raw_pair(uint32_t word, int i) {
  const uint32_t shifted = i >= 2 ? word >> 8 : word;
  const uint32_t spread = i % 2 == 0 ? (shifted & 0x000F000Fu) * 0x1040u : (shifted & 0x00F000F0u) * 0x0104u;
  return spread & 0x81C081C0u;
}

// One element, for the host, as the kernels make it of code `place` of a word: exactly code times scale.
NVFP4_HD float operand(uint8_t code, uint8_t scale, int place) {
  const uint32_t pair = raw_pair(static_cast<uint32_t>(code & 0xF) << 4 * place, place % 4);
  const uint16_t raw = static_cast<uint16_t>(place < 4 ? pair & 0xFFFF : pair >> 16);
  return Bfloat16::to_float(raw) * (decode_e4m3(scale) * kWeightScaleFactor) * kRowFactor;
}

// --- the order of K ------------------------------------------------------------------------------------------------

// K is taken in steps of 128; a lane of a quad owns 32 neighbouring codes of a row (16 bytes, two blocks), and each of the
// eight products m64nNk16 of a step takes four codes of each lane: codes i and i + 4, i + 1 and i + 5 of one word.
constexpr int kStepK = 128;
constexpr int kStepBlocks = kStepK / kBlockSize;
constexpr int kLaneK = 32;
constexpr int kProductK = 16;

// The column, in its step, whose product stands at `position`: what the workspace of A is written by.
NVFP4_HD int32_t column_of_position(int32_t position) {
  const int32_t product = position / kProductK;
  const int32_t at = position % kProductK;
  const int32_t lane = at % 8 / 2;
  const int32_t first = 2 * (product % 2) + at / 8;
  return kLaneK * lane + 8 * (product / 2) + first + 4 * (at % 2);
}

// --- tiles of rows -------------------------------------------------------------------------------------------------

// Tiles of at most `most` rows of an expert with `count` rows.
NVFP4_HD int32_t row_tiles(int32_t count, int32_t most) { return static_cast<int32_t>(ceil_div(count, most)); }

// The first expert whose running sum of tiles is above `tile`; `ends` ascend. `tile` is below the last.
NVFP4_HD int32_t expert_of_tile(const int32_t* ends, int32_t experts, int32_t tile) {
  int32_t first = 0;
  int32_t last = experts - 1;
  while (first < last) {
    const int32_t middle = first + (last - first) / 2;
    if (ends[middle] > tile) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

// The expert that owns a routed row (or, behind the last, the last one): the last with an offset not above it.
NVFP4_HD int32_t owner_of_row(const GemmArguments& call, int32_t row) {
  int32_t first = 0;  // the number of offsets <= row lies in [first, last]
  int32_t last = call.experts;
  while (first < last) {
    const int32_t middle = first + (last - first) / 2;
    if (call.expert_offsets[middle] <= row) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first - 1;
}

}  // namespace nvfp4_moe

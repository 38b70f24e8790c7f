// Scale bytes of weights between row-major order and a swizzled layout, both directions, for a stack of matrices.
#pragma once

#include "layouts.h"

namespace nvfp4_moe {

struct SwizzleArguments {
  const uint8_t* linear_in;    // swizzle: (E, rows, blocks)
  const uint8_t* swizzled_in;  // unswizzle: (E, padded rows, 4 * words)
  uint8_t* out;
  int64_t experts;
  int64_t rows;
  int64_t blocks;
  int32_t tile_rows;  // 128 or 8
};

NVFP4_HD int64_t swizzled_byte(const SwizzleArguments& call, int64_t expert, int64_t row, int64_t block) {
  const int64_t words = ceil_div(call.blocks, kTileBlocks);
  const int64_t slab = round_up(call.rows, call.tile_rows) * words * kTileBlocks;
  return expert * slab +
         (call.tile_rows == kTileRows ? swizzled_128x4(row, block, words) : swizzled_8x4(row, block, words));
}

// One word of the swizzled buffer: four neighbouring blocks of a row, zero outside the matrix.
template <class Writer>
NVFP4_HD void swizzle_word(const SwizzleArguments& call, int64_t expert, int64_t row, int64_t word,
                           const Writer& write) {
  uint32_t value = 0;
  for (int i = 0; i < kTileBlocks; ++i) {
    const int64_t block = word * kTileBlocks + i;
    if (row >= call.rows || block >= call.blocks) continue;
    const int64_t from = (expert * call.rows + row) * call.blocks + block;
    value |= static_cast<uint32_t>(call.linear_in[from]) << (8 * i);
  }
  write(call.out + swizzled_byte(call, expert, row, word * kTileBlocks), value);
}

// One byte of the row-major matrix.
template <class Writer>
NVFP4_HD void unswizzle_byte(const SwizzleArguments& call, int64_t expert, int64_t row, int64_t block,
                             const Writer& write) {
  const int64_t to = (expert * call.rows + row) * call.blocks + block;
  write(call.out + to, call.swizzled_in[swizzled_byte(call, expert, row, block)]);
}

}  // namespace nvfp4_moe

// Where the scale byte of (row, block) lies, and which expert owns a routed row. Mirrors `reference/layouts.py`.
#pragma once

#include "common.h"

namespace nvfp4_moe {

// Scale bytes of a row, padding included, and the words of four that they make.
NVFP4_HD int64_t scale_words(int64_t k) { return ceil_div(k, kBlockSize * kTileBlocks); }

// The CUTLASS 128x4 layout, in two parts that add up: where a row begins, and where its block lies from there.
// `words` = scale_words(k); bytes from the start of the buffer (or, for a row inside an expert, of its region).
template <class Row, class Words>
NVFP4_HD int64_t row_byte_128x4(Row row, Words words) {
  const Row in_tile = row % kTileRows;
  return int64_t{row - in_tile} * int64_t{words * kTileBlocks} +
         int64_t{(in_tile % kTileLanes * (kTileRows / kTileLanes) + in_tile / kTileLanes) * kTileBlocks};
}

template <class Block>
NVFP4_HD Block block_byte_128x4(Block block) {
  return block / kTileBlocks * (kTileRows * kTileBlocks) + block % kTileBlocks;
}

NVFP4_HD int64_t swizzled_128x4(int64_t row, int64_t block, int64_t words) {
  return row_byte_128x4(row, words) + block_byte_128x4(block);
}

// The 8x4 layout of FlashInfer's trtllm-gen kernels.
constexpr int kSmallTileRows = 8;

NVFP4_HD int64_t swizzled_8x4(int64_t row, int64_t block, int64_t words) {
  const int64_t tile = row / kSmallTileRows * words + block / kTileBlocks;
  return (tile * kSmallTileRows + row % kSmallTileRows) * kTileBlocks + block % kTileBlocks;
}

// The expert e with offsets[e] <= row < offsets[e + 1], -1 before the first and E behind the last. `offsets` ascend; empty
// experts are stepped over.
NVFP4_HD int32_t expert_of_row(const int32_t* offsets, int32_t experts, int64_t row) {
  int32_t first = 0;  // the number of offsets <= row lies in [first, last]
  int32_t last = experts + 1;
  while (first < last) {
    const int32_t middle = first + (last - first) / 2;
    if (offsets[middle] <= row) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first - 1;
}

}  // namespace nvfp4_moe

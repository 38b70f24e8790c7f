// What every kernel body shares: the host-and-device marker, integer helpers, bit casts, and the way bytes are stored.
//
// The bodies in this folder are plain functions of (row, column) or (warp, lane). A .cu file calls them from a grid;
// the host twin (csrc/host_*.h) calls the very same functions from loops, so that the sanitizers of g++ see them.
// All indices are signed (an overflow is then an error that UBSan reports, never a silent wrap), and everything that
// grows with rows is 64 bits wide.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define NVFP4_HD __host__ __device__ __forceinline__
#else
#define NVFP4_HD inline
#endif

namespace nvfp4_moe {

constexpr int kBlockSize = 16;       // elements that share one scale byte
constexpr int kTileRows = 128;       // rows of a CUTLASS scale-factor tile
constexpr int kTileBlocks = 4;       // scale bytes of a row that lie together: one 32-bit word
constexpr int kTileLanes = 32;       // rows r, r + 32, r + 64, r + 96 of a tile share a piece of 16 bytes
constexpr int kPieceWords = 4;       // one of each of those rows
constexpr int kPieceBytes = 4 * kPieceWords;

NVFP4_HD int64_t ceil_div(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }
NVFP4_HD int64_t round_up(int64_t value, int64_t multiple) { return ceil_div(value, multiple) * multiple; }

NVFP4_HD uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

NVFP4_HD float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// How a body writes. `Store` does the work; `CountWriters` leaves, in the place of each byte, how often it was written.
struct Store {
  template <class Word>
  NVFP4_HD void operator()(void* to, Word value) const {
#if defined(__CUDA_ARCH__)
    *static_cast<Word*>(to) = value;  // the launchers check the alignment
#else
    memcpy(to, &value, sizeof value);
#endif
  }
};

struct CountWriters {
  template <class Word>
  void operator()(void* to, Word) const {
    for (size_t i = 0; i < sizeof(Word); ++i) static_cast<uint8_t*>(to)[i] += 1;
  }
};

}  // namespace nvfp4_moe

// What the grouped GEMM needs before it starts: routed rows as bfloat16 in the order of K that the products take, and the
// running sums of row tiles. Also the plain dequantization of both operands, for the two-step form.
#pragma once

#include "gemm_ptx.cuh"
#include "nvfp4_moe/gemm.h"

namespace nvfp4_moe::gemm {

constexpr int kPrepareThreads = 256;
constexpr uint32_t kTwice2To16 = 0x47804780u;  // two bfloat16 of 2^16: the 2^8 that weights lack, and the 2^8 of rows
constexpr uint32_t kTwice2To8 = 0x43804380u;

// Two scale bytes that belong to 32 neighbouring codes.
__device__ __forceinline__ void twice_scales(uint16_t bytes, uint32_t (&scale)[2]) {
  float first, second;
  decode_e4m3_pair(bytes, first, second);
  scale[0] = twice_bf16(first * kWeightScaleFactor);
  scale[1] = twice_bf16(second * kWeightScaleFactor);
}

// Word i of lane j becomes word j of lane i, among four neighbouring lanes.
__device__ __forceinline__ void transpose_quad(uint32_t (&word)[4]) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & distance) continue;
      const bool upper = lane & distance;
      const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, upper ? word[i] : word[i | distance], distance);
      if (upper) {
        word[i] = other;
      } else {
        word[i | distance] = other;
      }
    }
  }
}

// One routed row; a thread takes 32 codes, four neighbours a step of K. Columns past K become zero.
__device__ __forceinline__ void prepare_row(const GemmArguments& call, int32_t row, uint16_t* x, int32_t steps) {
  const int32_t expert = owner_of_row(call, row);
  if (expert < 0) return;
  const ExpertRows rows = expert_rows(call, expert);
  if (row - rows.first >= rows.count) return;
  const int32_t pieces = steps * (kStepK / kLaneK);
  for (int32_t begin = 0; begin < pieces; begin += kPrepareThreads) {
    const int32_t piece = begin + static_cast<int32_t>(threadIdx.x);
    const int32_t column = piece * kLaneK;
    uint4 codes{};
    uint16_t bytes = 0;
    if (column < call.k) {
      codes = *reinterpret_cast<const uint4*>(call.a + row * int64_t{call.k / 2} + column / 2);
      bytes = *reinterpret_cast<const uint16_t*>(
          call.a_scale + a_scale_byte(call, rows, row - rows.first, column / kBlockSize));
    }
    uint32_t scale[2];
    twice_scales(bytes, scale);
    const uint32_t word[4] = {codes.x, codes.y, codes.z, codes.w};
    uint4* to = reinterpret_cast<uint4*>(x + row * int64_t{steps} * kStepK + piece / 4 * kStepK) + piece % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t pairs[4];
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        pairs[pair] = multiply_bf16x2(multiply_bf16x2(raw_pair(word[i], pair), scale[i / 2]), kTwice2To16);
      }
      transpose_quad(pairs);
      if (piece < pieces) to[4 * i] = uint4{pairs[0], pairs[1], pairs[2], pairs[3]};
    }
  }
}

// Running sums of row tiles, by one block.
__device__ __forceinline__ void sum_tiles(const GemmArguments& call, int32_t most_rows, int32_t* tile_ends) {
  __shared__ int32_t warp_sums[kPrepareThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int32_t before = 0;
  for (int32_t begin = 0; begin < call.experts; begin += kPrepareThreads) {
    const int32_t expert = begin + static_cast<int32_t>(threadIdx.x);
    int32_t sum = expert < call.experts ? row_tiles(expert_rows(call, expert).count, most_rows) : 0;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int32_t other = __shfl_up_sync(0xFFFFFFFFu, sum, distance);
      if (lane >= distance) sum += other;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    int32_t all = before;
    for (int i = 0; i < kPrepareThreads / 32; ++i) {
      if (i == warp && expert < call.experts) tile_ends[expert] = all + sum;
      all += warp_sums[i];
    }
    before = all;
    __syncthreads();
  }
}

// Block 0 sums the tiles, block 1 + r prepares row r.
static __global__ void __launch_bounds__(kPrepareThreads)
    prepare_kernel(const __grid_constant__ GemmArguments call, uint16_t* x, int32_t* tile_ends, int32_t steps,
                   int32_t most_rows) {
  if (blockIdx.x == 0) {
    sum_tiles(call, most_rows, tile_ends);
  } else {
    prepare_row(call, static_cast<int32_t>(blockIdx.x) - 1, x, steps);
  }
}

// --- the plain form ------------------------------------------------------------------------------------------------

// 16 codes of one scale, in their own order.
__device__ __forceinline__ void dequantize_block(const uint8_t* codes, uint8_t scale_byte, uint16_t* to) {
  const uint2 words = *reinterpret_cast<const uint2*>(codes);
  uint32_t scale[2];
  twice_scales(scale_byte, scale);
  uint32_t out[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t byte = ((i < 4 ? words.x : words.y) >> (i % 4 * 8)) & 0xFF;
    const uint32_t pair = raw_pair((byte & 0xF) | (byte & 0xF0) << 12, 0);  // codes 2i and 2i + 1 at nibbles 0 and 4
    out[i] = multiply_bf16x2(multiply_bf16x2(pair, scale[0]), kTwice2To8);
  }
  uint4* both = reinterpret_cast<uint4*>(to);
  both[0] = uint4{out[0], out[1], out[2], out[3]};
  both[1] = uint4{out[4], out[5], out[6], out[7]};
}

// Block (n, e) writes row n of expert e as bfloat16 (E, N, K).
static __global__ void __launch_bounds__(kPrepareThreads)
    dequantize_weights_kernel(const __grid_constant__ GemmArguments call, uint16_t* weights) {
  const int32_t expert = static_cast<int32_t>(blockIdx.y), column = static_cast<int32_t>(blockIdx.x);
  const int64_t row = expert * int64_t{call.n} + column;
  for (int32_t block = static_cast<int32_t>(threadIdx.x); block < call.k / kBlockSize; block += kPrepareThreads) {
    dequantize_block(call.b + row * (call.k / 2) + block * (kBlockSize / 2), call.b_scale[b_scale_byte(call, expert, column, block)],
                     weights + row * call.k + block * kBlockSize);
  }
}

// Block r writes routed row r as bfloat16 (rows, K).
static __global__ void __launch_bounds__(kPrepareThreads)
    dequantize_rows_kernel(const __grid_constant__ GemmArguments call, uint16_t* x) {
  const int32_t row = static_cast<int32_t>(blockIdx.x);
  const int32_t expert = owner_of_row(call, row);
  if (expert < 0) return;
  const ExpertRows rows = expert_rows(call, expert);
  if (row - rows.first >= rows.count) return;
  for (int32_t block = static_cast<int32_t>(threadIdx.x); block < call.k / kBlockSize; block += kPrepareThreads) {
    dequantize_block(call.a + row * int64_t{call.k / 2} + block * (kBlockSize / 2),
                     call.a_scale[a_scale_byte(call, rows, row - rows.first, block)],
                     x + row * int64_t{call.k} + block * kBlockSize);
  }
}

}  // namespace nvfp4_moe::gemm

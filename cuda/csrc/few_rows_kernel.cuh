// Quantization where there are too few rows to hide anything behind: a thread block a row, a thread a block of 16.
//
// Such a call lasts little longer than one trip to memory and the fetch of its instructions, so the elements are asked for
// first, and the threads share the search for the row's expert meanwhile: the barrier counts the experts that end at or
// before the row.
#pragma once

#include "quantize_kernel.cuh"

namespace nvfp4_moe::device {

constexpr int kFewRowsThreads = 512;  // K up to 8,192
// Thread blocks of a multiprocessor: the plain form does with 32 registers a thread, the fused one would spill.
template <bool kFused>
constexpr int kFewRowsResident = kFused ? 3 : 4;

__device__ __forceinline__ Registers load_block(const uint16_t* from) {
  const uint4 low = __ldg(reinterpret_cast<const uint4*>(from));
  const uint4 high = __ldg(reinterpret_cast<const uint4*>(from + kBlockSize / 2));
  return Registers{{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

// What a row needs to know of its expert; nothing is written for a row that has none.
struct RowPlace {
  int32_t expert;  // -1: none
  float global_encode_scale;
  uint8_t* scales;  // scale byte of block 0
};

// As `ragged_owner`, by all threads together. Offsets that do not ascend lead to some expert, and to no access outside.
__device__ __forceinline__ RowPlace place_of_row(const QuantizeArguments& call, int32_t row, int32_t words) {
  const auto threads = static_cast<int32_t>(blockDim.x);
  int32_t expert = 0;
#pragma unroll 1
  for (int32_t first = 0; first < call.experts; first += threads) {
    const int32_t e = first + static_cast<int32_t>(threadIdx.x);
    expert += __syncthreads_count(e < call.experts && __ldg(call.expert_offsets + 1 + e) <= row);
  }
  const int32_t there = min(expert, call.experts - 1);
  const int32_t first_row = __ldg(call.expert_offsets + there);
  const int64_t scale_row = __ldg(call.blockscale_offsets + there);
  const float g = __ldg(call.global_encode_scale + there);
  const int32_t in_expert = row - first_row;
  const bool fits = scale_row >= 0 && scale_row + (in_expert | (kTileRows - 1)) < call.scale_rows;
  if (expert != there || in_expert < 0 || !fits) return RowPlace{-1, 0.0f, nullptr};
  uint8_t* scales = call.block_scale + scale_row * (words * kTileBlocks) +
                    row_byte_128x4(static_cast<uint32_t>(in_expert), static_cast<uint32_t>(words));
  return RowPlace{expert, g, scales};
}

template <class Type, bool kFused, Form kForm, class Arithmetic>
__global__ void __launch_bounds__(kFewRowsThreads, kFewRowsResident<kFused>)
    few_rows_kernel(const __grid_constant__ QuantizeArguments call, Arithmetic arithmetic) {
  static_assert(kForm != Form::kMasked);
  const auto row = static_cast<int32_t>(blockIdx.x);
  const auto block = static_cast<int32_t>(threadIdx.x);
  const int32_t words = (call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize * kTileBlocks);
  const bool live = block < call.k / kBlockSize;
  const int64_t source = kForm == Form::kGathered ? source_row(call, row) : row;
  Registers x{};
  Registers up{};
  if (live && source >= 0) {
    const uint16_t* from = call.input + source * int64_t{call.input_stride} + block * kBlockSize;
    x = load_block(from);
    if constexpr (kFused) up = load_block(from + call.k);
  }
  const RowPlace place = place_of_row(call, row, words);
  if (place.expert < 0 || block >= words * kTileBlocks) return;
  uint8_t scale = 0;
  if (live) {
    const float g = place.global_encode_scale;
    const Result result =
        quantize_loaded<Type, kFused>(call, x, up, row, block, g, arithmetic.reciprocal(g), arithmetic);
    store_once(call.packed + int64_t{row} * (call.k / 2) + block * (kBlockSize / 2), result.packed);
    scale = result.scale;
  }
  place.scales[block_byte_128x4(static_cast<uint32_t>(block))] = scale;
}

}  // namespace nvfp4_moe::device

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
  const uint4 low = *reinterpret_cast<const uint4*>(from);
  const uint4 high = *reinterpret_cast<const uint4*>(from + kBlockSize / 2);
  return Registers{{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

// What a row needs to know of its expert.
struct RowPlace {
  int32_t first_row;  // of the expert
  int32_t end_row;    // as in `Owner`
  int32_t scale_row;  // first of the expert's region
  float global_encode_scale;
};

// Finds the row's expert by all threads together, one expert each, and has its vectors in the same trip to memory; false:
// there is none, and nothing may be written. Offsets that do not ascend lead to some expert, and to no access outside.
__device__ __forceinline__ bool find_place(const QuantizeArguments& call, int32_t row, RowPlace& place) {
  RowPlace mine{0, 0, 0, 0.0f};  // an expert without rows
#pragma unroll 1
  for (auto e = static_cast<int32_t>(threadIdx.x); e < call.experts; e += static_cast<int32_t>(blockDim.x)) {
    const RowPlace other{call.expert_offsets[e], call.expert_offsets[e + 1], call.blockscale_offsets[e],
                         call.global_encode_scale[e]};
    // Selected, not branched on: the loads would move behind the branch and make a second trip.
    const bool owns = row >= other.first_row && row < other.end_row;
    mine.first_row = owns ? other.first_row : mine.first_row;
    mine.end_row = owns ? other.end_row : mine.end_row;
    mine.scale_row = owns ? other.scale_row : mine.scale_row;
    mine.global_encode_scale = owns ? other.global_encode_scale : mine.global_encode_scale;
  }
  mine.end_row = clipped_owner(call, 0, mine.first_row, mine.end_row, mine.scale_row).end_row;
  const bool found = row >= mine.first_row && row < mine.end_row;
  if (found) place = mine;
  return __syncthreads_or(found) != 0;
}

// A row's share of its expert's row padding: word columns, a warp each.
__device__ __forceinline__ void zero_share_of_padding(const QuantizeArguments& call, const RowPlace& place, int32_t row,
                                                      int32_t words) {
  const int32_t owned = place.end_row - place.first_row;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  if (lane < first_empty_lane(owned)) return;
  const auto warps = static_cast<int32_t>(blockDim.x) / 32;
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32;
  const int64_t tile_row = int64_t{place.scale_row} + owned - owned % kTileRows;
  const PaddingPlace tile{tile_row * (words * kTileBlocks), lane};
#pragma unroll 1
  for (int32_t word = (row - place.first_row) * warps + warp; word < words; word += owned * warps) {
    zero_padding_piece(call, tile, word, lane, Store{});
  }
}

template <class Type, bool kFused, Form kForm, class Arithmetic>
__global__ void __launch_bounds__(kFewRowsThreads, kFewRowsResident<kFused>)
    few_rows_kernel(const __grid_constant__ QuantizeArguments call, Arithmetic arithmetic, bool zero_row_padding) {
  static_assert(kForm != Form::kMasked);
  __shared__ RowPlace shared_place;
  const auto row = static_cast<int32_t>(blockIdx.x);
  const auto block = static_cast<int32_t>(threadIdx.x);
  const int32_t words = (call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize * kTileBlocks);
  const bool live = block < call.k / kBlockSize;
  let_next_start();
  wait_for_previous();
  const int64_t source = kForm == Form::kGathered ? source_row(call, row) : row;
  Registers x{};
  Registers up{};
  if (live && source >= 0) {
    const uint16_t* from = call.input + source * int64_t{call.input_stride} + block * kBlockSize;
    x = load_block(from);
    if constexpr (kFused) up = load_block(from + call.k);
  }
  if (!find_place(call, row, shared_place)) return;
  const RowPlace place = shared_place;
  if (zero_row_padding) zero_share_of_padding(call, place, row, words);
  uint8_t scale = 0;
  if (live) {
    const float g = place.global_encode_scale;
    const Result result =
        quantize_loaded<Type, kFused>(call, x, up, row, block, g, arithmetic.reciprocal(g), arithmetic);
    store_once(call.packed + int64_t{row} * (call.k / 2) + block * (kBlockSize / 2), result.packed);
    scale = result.scale;
  }
  const int32_t row_in_expert = row - place.first_row;
  const int64_t row_byte = int64_t{place.scale_row} * (words * kTileBlocks) +
                           row_byte_128x4(static_cast<uint32_t>(row_in_expert), static_cast<uint32_t>(words));
  store_scales(call.block_scale + row_byte + block / kTileBlocks * (kTileRows * kTileBlocks), block, scale,
               padding_beside(row_in_expert, place.end_row - place.first_row), block < words * kTileBlocks);
}

}  // namespace nvfp4_moe::device

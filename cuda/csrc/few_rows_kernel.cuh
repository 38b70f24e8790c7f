// Quantization where there are too few rows to hide anything behind: a thread block a row, a thread a block of 16.
//
// Such a call lasts little longer than one trip to memory and the fetch of its instructions, so the elements are asked for
// first, and the threads share the search for the row's expert meanwhile; then, where it is wanted, they zero the row's share
// of its expert's row padding.
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

// What all threads need of the row and its expert. One of them works it out.
struct alignas(16) RowPlace {
  int64_t scale_byte;  // of the row's first block
  float global_encode_scale;
  int32_t beside;  // `PaddingBeside`: its words, and 4 more for the next piece
};

// The same for its row padding.
struct RowsOfExpert {
  int32_t first_row;
  int32_t end_row;    // as in `Owner`
  int32_t scale_row;  // first of the expert's region
};

// Finds the row's expert by all threads together, one expert each; false: there is none, and nothing may be written. Offsets
// that do not ascend lead to some expert, and to no access outside.
__device__ __forceinline__ bool find_place(const QuantizeArguments& call, int32_t row, int32_t words, RowPlace& place,
                                           RowsOfExpert& rows) {
  bool found = false;
#pragma unroll 1
  for (auto e = static_cast<int32_t>(threadIdx.x); e < call.experts; e += static_cast<int32_t>(blockDim.x)) {
    const int32_t first = call.expert_offsets[e];
    const int32_t end = call.expert_offsets[e + 1];
    if (row < first || row >= end) continue;
    const int32_t scale_row = call.blockscale_offsets[e];
    place.global_encode_scale = call.global_encode_scale[e];  // in the same trip: behind the branch it would make another
    const Owner owner = clipped_owner(call, e, first, end, scale_row);
    if (row >= owner.end_row) continue;
    const int32_t in_expert = row - first;
    const PaddingBeside beside = padding_beside(in_expert, owner.end_row - first);
    place.scale_byte = region_byte(owner, words) +
                       row_byte_128x4(static_cast<uint32_t>(in_expert), static_cast<uint32_t>(words));
    place.beside = beside.words_behind + (beside.next_piece ? kPieceWords : 0);
    rows = RowsOfExpert{first, owner.end_row, scale_row};
    found = true;
  }
  return __syncthreads_or(found) != 0;
}

// A row's share of its expert's row padding: word columns, a warp each.
__device__ __forceinline__ void zero_share_of_padding(const QuantizeArguments& call, const RowsOfExpert& rows, int32_t row,
                                                      int32_t words) {
  const int32_t owned = rows.end_row - rows.first_row;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  if (lane < first_empty_lane(owned)) return;
  const auto warps = static_cast<int32_t>(blockDim.x) / 32;
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32;
  const int64_t tile_row = int64_t{rows.scale_row} + owned - owned % kTileRows;
  const PaddingPlace tile{tile_row * (words * kTileBlocks), lane};
#pragma unroll 1
  for (int32_t word = (row - rows.first_row) * warps + warp; word < words; word += owned * warps) {
    zero_padding_piece(call, tile, word, lane, Store{});
  }
}

template <class Type, bool kFused, Form kForm, class Arithmetic>
__global__ void __launch_bounds__(kFewRowsThreads, kFewRowsResident<kFused>)
    few_rows_kernel(const __grid_constant__ QuantizeArguments call, Arithmetic arithmetic, bool zero_row_padding) {
  static_assert(kForm != Form::kMasked);
  __shared__ RowPlace shared_place;
  __shared__ RowsOfExpert shared_rows;
  const auto row = static_cast<int32_t>(blockIdx.x);
  const auto block = static_cast<int32_t>(threadIdx.x);
  const int32_t words = (call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize * kTileBlocks);
  const bool live = block < call.k / kBlockSize;
  wait_for_previous();
  const int64_t source = kForm == Form::kGathered ? source_row(call, row) : row;
  Registers x{};
  Registers up{};
  if (live && source >= 0) {
    const uint16_t* from = call.input + source * int64_t{call.input_stride} + block * kBlockSize;
    x = load_block(from);
    if constexpr (kFused) up = load_block(from + call.k);
  }
  let_next_start();  // not before: blocks that wait would be in the way of these loads
  if (!find_place(call, row, words, shared_place, shared_rows)) return;
  if (zero_row_padding) zero_share_of_padding(call, shared_rows, row, words);
  const RowPlace place = shared_place;
  uint8_t scale = 0;
  if (live) {
    const float g = place.global_encode_scale;
    const Result result =
        quantize_loaded<Type, kFused>(call, x, up, row, block, g, arithmetic.reciprocal(g), arithmetic);
    store_once(call.packed + int64_t{row} * (call.k / 2) + block * (kBlockSize / 2), result.packed);
    scale = result.scale;
  }
  const auto beside = static_cast<uint32_t>(place.beside);
  store_scales(call.block_scale + place.scale_byte, static_cast<uint32_t>(block), scale,
               PaddingBeside{static_cast<int32_t>(beside % kPieceWords), beside >= kPieceWords},
               block < words * kTileBlocks);
}

}  // namespace nvfp4_moe::device

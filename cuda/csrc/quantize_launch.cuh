// Launch of the quantization kernel: geometry, and the choice of its template arguments. One file a dtype includes it, so
// that they compile side by side.
#pragma once

#include <algorithm>

#include "quantize_launch.h"
#include "quantize_kernel.cuh"

namespace nvfp4_moe::device {

struct Geometry {
  dim3 block;
  int64_t row_groups;   // groups of neighbouring rows, one for each y of a thread block
  int32_t rows_each;    // rows of a group
  int32_t row_blocks;
};

constexpr int32_t kMostRowsEach = 4;
constexpr int64_t kWaves = 12;  // thread blocks for each multiprocessor that are wanted before groups grow

inline Geometry geometry_of(int64_t rows, int32_t k, int32_t multiprocessors) {
  const auto padded_blocks = static_cast<int32_t>(scale_words(k) * kTileBlocks);
  const auto passes = static_cast<int32_t>(ceil_div(padded_blocks, kMostThreads));
  const auto along = static_cast<uint32_t>(round_up(ceil_div(padded_blocks, passes), 32));
  const uint32_t groups = std::max(1u, kMostThreads / along);
  const int64_t wanted = rows / (int64_t{groups} * multiprocessors * kWaves);
  Geometry geometry{};
  geometry.rows_each = static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, kMostRowsEach));
  geometry.row_groups = ceil_div(rows, geometry.rows_each);
  geometry.block = dim3(along, groups);
  geometry.row_blocks = static_cast<int32_t>(ceil_div(geometry.row_groups, groups));
  return geometry;
}

template <class Type, bool kFused, Form kForm, class Arithmetic>
cudaError_t launch_kernel(const QuantizeArguments& call, const Arithmetic& arithmetic, const QuantizeOptions& options,
                          cudaStream_t stream) {
  int device = 0;
  int multiprocessors = 1;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  if (const auto error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) return error;
  const bool masked = kForm == Form::kMasked;
  const Geometry at = geometry_of(masked ? call.rows_per_expert : call.rows, call.k, multiprocessors);
  const int32_t padding_blocks = options.zero_row_padding ? (masked ? 1 : call.experts) : 0;
  const dim3 grid(static_cast<uint32_t>(at.row_blocks + padding_blocks), masked ? static_cast<uint32_t>(call.experts) : 1);
  quantize_kernel<Type, kFused, kForm, Arithmetic>
      <<<grid, at.block, 0, stream>>>(call, arithmetic, at.row_blocks, at.rows_each);
  return cudaGetLastError();
}

template <class Type, class Arithmetic>
cudaError_t launch_form(const QuantizeArguments& call, const Arithmetic& arithmetic, const QuantizeOptions& options,
                        cudaStream_t stream) {
  if (call.masked_m != nullptr) {
    return options.fused ? launch_kernel<Type, true, Form::kMasked>(call, arithmetic, options, stream)
                         : launch_kernel<Type, false, Form::kMasked>(call, arithmetic, options, stream);
  }
  if (call.source_rows != nullptr) {
    return launch_kernel<Type, false, Form::kGathered>(call, arithmetic, options, stream);
  }
  return options.fused ? launch_kernel<Type, true, Form::kRagged>(call, arithmetic, options, stream)
                       : launch_kernel<Type, false, Form::kRagged>(call, arithmetic, options, stream);
}

template <class Type>
cudaError_t launch_type(const QuantizeArguments& call, const QuantizeOptions& options, cudaStream_t stream) {
  if (options.ieee) return launch_form<Type>(call, IeeeArithmetic{options.silu_values}, options, stream);
  return launch_form<Type>(call, ChipArithmetic{}, options, stream);
}

}  // namespace nvfp4_moe::device

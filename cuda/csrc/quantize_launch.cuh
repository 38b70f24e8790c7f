// Launch of the quantization kernel: geometry, and the choice of its template arguments. One file a dtype includes it, so
// that they compile side by side.
#pragma once

#include <algorithm>

#include "few_rows_kernel.cuh"
#include "quantize_launch.h"
#include "quantize_kernel.cuh"

namespace nvfp4_moe::device {

struct Geometry {
  dim3 block;  // threads along a row, groups of rows
  dim3 grid;
  Split split;
  size_t shared_bytes;
};

// Rows of a warp: one until every multiprocessor is full, then up to four; eight pay only where there are many rounds.
constexpr int64_t kFewRowsEach = 4;
constexpr int64_t kManyRowsEach = 8;
constexpr int64_t kManyRows = 32;  // rows for each warp that fits the device
// Up to here a thread block a row, without a ring; narrow rows leave such blocks too few threads for the search.
constexpr int64_t kFewRows = 2048;
constexpr int64_t kFewNarrowRows = 1024;
constexpr int64_t kNarrowThreads = 256;
constexpr int64_t kSharedVectorExperts = 2048;  // 24 KiB; more experts are searched in global memory

// `rows` of each of `slabs` slabs (one, or the experts of the masked form).
template <bool kFused, Form kForm>
Geometry geometry_of(int64_t rows, int64_t slabs, const QuantizeArguments& call, bool zero_row_padding,
                     int64_t multiprocessors) {
  const int64_t padded_blocks = scale_words(call.k) * kTileBlocks;
  const int64_t splits = ceil_div(padded_blocks, kMostThreads);
  const int64_t along = round_up(ceil_div(padded_blocks, splits), 32);
  const int64_t groups = std::max<int64_t>(1, kMostThreads / along);
  const int64_t rows_a_warp = ceil_div(rows * splits * slabs, groups * multiprocessors * kResidentBlocks);
  const int64_t rows_each =
      rows_a_warp >= kManyRows ? kManyRowsEach : std::clamp<int64_t>(rows_a_warp, 1, kFewRowsEach);
  const int64_t row_blocks = ceil_div(rows, groups * rows_each);
  const int64_t padding_blocks = !zero_row_padding ? 0 : kForm == Form::kMasked ? 1 : call.experts;
  const int64_t ring_bytes = along * groups / 32 * Ring<kFused>::kBytesAWarp;
  // For one row a warp, the copy would cost more than it saves.
  const bool vectors = kForm != Form::kMasked && rows_each > 1 && call.experts <= kSharedVectorExperts;
  Geometry geometry{};
  geometry.block = dim3(static_cast<uint32_t>(along), static_cast<uint32_t>(groups));
  geometry.grid = dim3(static_cast<uint32_t>(row_blocks + padding_blocks), static_cast<uint32_t>(splits),
                       static_cast<uint32_t>(slabs));
  geometry.split = Split{static_cast<int32_t>(row_blocks), static_cast<int32_t>(rows_each),
                         vectors ? static_cast<int32_t>(ring_bytes) : 0};
  geometry.shared_bytes = static_cast<size_t>(ring_bytes + (vectors ? 4 * (3 * int64_t{call.experts} + 2) : 0));
  return geometry;
}

inline bool few_rows(const QuantizeArguments& call) {
  const int64_t threads = scale_words(call.k) * kTileBlocks;
  return threads <= kFewRowsThreads && call.rows <= (threads < kNarrowThreads ? kFewNarrowRows : kFewRows);
}

template <class Type, bool kFused, Form kForm, class Arithmetic>
cudaError_t launch_few_rows(const QuantizeArguments& call, const Arithmetic& arithmetic, const QuantizeOptions& options,
                            cudaStream_t stream) {
  const auto threads = static_cast<uint32_t>(round_up(scale_words(call.k) * kTileBlocks, 32));
  return launch_early(few_rows_kernel<Type, kFused, kForm, Arithmetic>, dim3(static_cast<uint32_t>(call.rows)), dim3(threads), 0,
                      stream, call, arithmetic, options.zero_row_padding);
}

template <class Type, bool kFused, Form kForm, class Arithmetic>
cudaError_t launch_kernel(const QuantizeArguments& call, const Arithmetic& arithmetic, const QuantizeOptions& options,
                          cudaStream_t stream) {
  if constexpr (kForm != Form::kMasked) {
    if (few_rows(call)) return launch_few_rows<Type, kFused, kForm>(call, arithmetic, options, stream);
  }
  constexpr size_t kSharedWithoutAsking = 48 * 1024;
  int device = 0;
  int multiprocessors = 1;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  if (const auto error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) return error;
  const bool masked = kForm == Form::kMasked;
  const Geometry at = geometry_of<kFused, kForm>(masked ? call.rows_per_expert : call.rows, masked ? call.experts : 1,
                                                 call, options.zero_row_padding, multiprocessors);
  const auto kernel = quantize_kernel<Type, kFused, kForm, Arithmetic>;
  if (at.shared_bytes > kSharedWithoutAsking) {
    const auto error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(at.shared_bytes));
    if (error != cudaSuccess) return error;
  }
  return launch_early(kernel, at.grid, at.block, at.shared_bytes, stream, call, arithmetic, at.split);
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

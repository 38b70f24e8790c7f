// Launches of the grouped GEMM on Hopper for one output type: tensor maps and both kernels of each form.
#pragma once

#include "gemm_kernel.cuh"
#include "gemm_launch.h"
#include "gemm_prepare.cuh"

namespace nvfp4_moe::gemm {

using FewRows = Shape<4, 64, 6, 112, 32>;
using ManyRows = Shape<2, 256, 3, 240, 24>;

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

inline EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    constexpr unsigned kSince = 12000;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kSince, cudaEnableDefault, &result);
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<EncodeTiled>(found) : nullptr;
  }();
  return function;
}

template <int kRank>
bool encode(CUtensorMap& map, CUtensorMapDataType type, const void* base, const uint64_t (&sizes)[kRank],
            const uint64_t (&strides)[kRank - 1], const uint32_t (&box)[kRank], CUtensorMapSwizzle swizzle) {
  uint32_t ones[kRank];
  for (uint32_t& one : ones) one = 1;
  return encode_tiled()(&map, type, kRank, const_cast<void*>(base), sizes, strides, box, ones,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

inline bool encode_maps(Maps& maps, const GemmArguments& call, const Workspace& workspace) {
  if (encode_tiled() == nullptr) return false;
  const uint64_t row = static_cast<uint64_t>(call.k / 2), columns = static_cast<uint64_t>(call.n);
  const uint64_t padded = static_cast<uint64_t>(round_up(call.k, kStepK)), rows = static_cast<uint64_t>(call.rows);
  const uint64_t code_sizes[3] = {row, columns, static_cast<uint64_t>(call.experts)}, code_strides[2] = {row, row * columns};
  const uint32_t code_box[3] = {kCodeBytes, kTileRows, 1};
  const uint64_t sizes[2] = {padded, rows}, strides[1] = {2 * padded};
  const uint32_t small[2] = {kHalfK, kRowsOfSmallBox}, large[2] = {kHalfK, kRowsOfLargeBox};
  return encode(maps.codes, CU_TENSOR_MAP_DATA_TYPE_UINT8, call.b, code_sizes, code_strides, code_box,
                CU_TENSOR_MAP_SWIZZLE_NONE) &&
         encode(maps.small_box, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, workspace.rows, sizes, strides, small,
                CU_TENSOR_MAP_SWIZZLE_128B) &&
         encode(maps.large_box, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, workspace.rows, sizes, strides, large,
                CU_TENSOR_MAP_SWIZZLE_128B);
}

template <class S, class Type>
cudaError_t launch_form(const GemmArguments& call, const Workspace& workspace, const Maps& maps, cudaStream_t stream) {
  const int32_t steps = static_cast<int32_t>(ceil_div(call.k, kStepK));
  prepare_kernel<<<static_cast<uint32_t>(call.rows + 1), kPrepareThreads, 0, stream>>>(call, workspace.rows,
                                                                                       workspace.tile_ends, steps, S::kMostRows);
  const auto kernel = gemm_kernel<S, Type>;
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  if (error != cudaSuccess) return error;
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return error;
  const KernelArguments given{call, workspace.tile_ends, static_cast<int32_t>(ceil_div(call.n, S::kColumns)), steps};
  kernel<<<static_cast<uint32_t>(processors), S::kThreads, S::kSharedBytes, stream>>>(given, maps);
  return cudaGetLastError();
}

template <class Type>
cudaError_t launch_type(const GemmArguments& call, const Workspace& workspace, int form, cudaStream_t stream) {
  Maps maps;
  if (!encode_maps(maps, call, workspace)) return cudaErrorInvalidValue;
  return form == 0 ? launch_form<FewRows, Type>(call, workspace, maps, stream)
                   : launch_form<ManyRows, Type>(call, workspace, maps, stream);
}

}  // namespace nvfp4_moe::gemm

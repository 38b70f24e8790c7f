// What the files of Hopper's grouped GEMM share: a file for each output type compiles the kernels, one binds them.
#pragma once

#include <cuda_runtime_api.h>

#include "nvfp4_moe/gemm.h"

namespace nvfp4_moe::gemm {

// Forms of the kernel: tiles for few rows an expert, and for many. They give the same bits.
constexpr int kForms = 2;
constexpr int64_t kFewRows = 64;  // an expert, at most: where the two are equally fast (E = 256, K = 7,168, N = 4,096)

struct Workspace {
  uint16_t* rows;      // bfloat16 (rows, K rounded up to 128)
  int32_t* tile_ends;  // (E,)
};

cudaError_t launch_bf16(const GemmArguments& call, const Workspace& workspace, int form, cudaStream_t stream);
cudaError_t launch_f16(const GemmArguments& call, const Workspace& workspace, int form, cudaStream_t stream);

}  // namespace nvfp4_moe::gemm

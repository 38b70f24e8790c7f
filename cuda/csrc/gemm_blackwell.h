// What the files of Blackwell's grouped GEMM share: a file for each output type compiles CUTLASS's kernels, one binds them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "nvfp4_moe/gemm.h"

namespace nvfp4_moe::blackwell {

// Forms of the kernel: a tile by one multiprocessor, or by a pair of them. Compute capability 12.x has the first only.
enum class Form { kOneSm, kTwoSm };

// Bytes of room that a call of `experts` experts needs; -1 where there is no such form.
int64_t workspace_bf16(int32_t experts, Form form);
int64_t workspace_f16(int32_t experts, Form form);

// nullptr, or what CUTLASS refused. CUDA's own errors are left for cudaGetLastError.
const char* run_bf16(const GemmArguments& call, Form form, void* workspace, cudaStream_t stream);
const char* run_f16(const GemmArguments& call, Form form, void* workspace, cudaStream_t stream);

}  // namespace nvfp4_moe::blackwell

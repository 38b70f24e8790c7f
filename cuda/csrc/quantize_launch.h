// What the binding calls: one launcher a dtype.
#pragma once

#include <cuda_runtime_api.h>

#include "nvfp4_moe/quantize.h"

namespace nvfp4_moe::device {

struct QuantizeOptions {
  bool fused;               // input is gate and up
  bool ieee;                // else the approximate instructions
  bool zero_row_padding;
  const float* silu_values; // (65536,) for fused and ieee
};

cudaError_t quantize_bf16(const QuantizeArguments& call, const QuantizeOptions& options, cudaStream_t stream);
cudaError_t quantize_f16(const QuantizeArguments& call, const QuantizeOptions& options, cudaStream_t stream);

// Yardsticks, bfloat16 in: the kernel with its loads and stores alone, and a plain kernel that is told where each row's
// scales go (scale_rows, one a row) and what lies beside them (beside, likewise). The outputs are meaningless.
cudaError_t roof(const QuantizeArguments& call, const QuantizeOptions& options, cudaStream_t stream);
cudaError_t plain_roof(const QuantizeArguments& call, const int32_t* scale_rows, const int32_t* beside, bool fused,
                       cudaStream_t stream);

}  // namespace nvfp4_moe::device

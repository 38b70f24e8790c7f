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

// bfloat16 in, loads and stores alone: what the memory system leaves to be reached. The outputs are meaningless.
cudaError_t roof(const QuantizeArguments& call, const QuantizeOptions& options, cudaStream_t stream);

}  // namespace nvfp4_moe::device

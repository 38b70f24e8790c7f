#include "quantize_launch.cuh"

namespace nvfp4_moe::device {

cudaError_t quantize_bf16(const QuantizeArguments& call, const QuantizeOptions& options, cudaStream_t stream) {
  return launch_type<Bfloat16>(call, options, stream);
}

}  // namespace nvfp4_moe::device

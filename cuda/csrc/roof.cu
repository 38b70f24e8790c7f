#include "quantize_launch.cuh"

namespace nvfp4_moe::device {

cudaError_t roof(const QuantizeArguments& call, const QuantizeOptions& options, cudaStream_t stream) {
  if (options.fused) return launch_kernel<Bfloat16, true, Form::kRagged>(call, NoArithmetic{}, options, stream);
  return launch_kernel<Bfloat16, false, Form::kRagged>(call, NoArithmetic{}, options, stream);
}

}  // namespace nvfp4_moe::device

#include "gemm_launch.cuh"

namespace nvfp4_moe::gemm {

cudaError_t launch_bf16(const GemmArguments& call, const Workspace& workspace, int form, cudaStream_t stream) {
  return launch_type<Bfloat16>(call, workspace, form, stream);
}

}  // namespace nvfp4_moe::gemm

#include "gemm_blackwell.cuh"

namespace nvfp4_moe::blackwell {

int64_t workspace_f16(int32_t experts, Form form) { return workspace<cutlass::half_t>(experts, form); }

const char* run_f16(const GemmArguments& call, Form form, void* room, cudaStream_t stream) {
  return run<cutlass::half_t>(call, form, room, stream);
}

}  // namespace nvfp4_moe::blackwell

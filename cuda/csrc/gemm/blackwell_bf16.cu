#include "gemm_blackwell.cuh"

namespace nvfp4_moe::blackwell {

int64_t workspace_bf16(int32_t experts, Form form) { return workspace<cutlass::bfloat16_t>(experts, form); }

const char* run_bf16(const GemmArguments& call, Form form, void* room, cudaStream_t stream) {
  return run<cutlass::bfloat16_t>(call, form, room, stream);
}

}  // namespace nvfp4_moe::blackwell

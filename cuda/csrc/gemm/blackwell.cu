// CUDA binding of Blackwell's grouped GEMM: checks, workspace, launch. Compiled and disassembled, never run.
#include "device_binding.h"
#include "gemm_blackwell.h"
#include "gemm_checks.h"

namespace nvfp4_moe::blackwell {
namespace {

using binding::TensorView;

constexpr int64_t kForms = 2;

Form checked_form(int64_t form) {
  binding::require_range("form", form, 0, kForms - 1);
  return static_cast<Form>(form);
}

// Bytes of `workspace` for a number of experts, a type of output and a form.
int64_t blackwell_workspace(int64_t experts, bool bf16, int64_t form) {
  binding::require_range("the number of experts", experts, 1, binding::kInt32Max - 1);
  const int64_t bytes = (bf16 ? workspace_bf16 : workspace_f16)(static_cast<int32_t>(experts), checked_form(form));
  if (bytes < 0) binding::value_error(binding::Text() << "this device has no form " << form << " of the grouped GEMM");
  return bytes;
}

void grouped_gemm_blackwell(TensorView out, TensorView a, TensorView b, TensorView a_blockscale, TensorView b_blockscale,
                            TensorView alphas, TensorView problem_sizes, TensorView expert_offsets,
                            TensorView blockscale_offsets, TensorView workspace, int64_t form) {
  device::require_cuda(a);
  const GemmArguments call = binding::gemm_arguments(out, a, b, a_blockscale, b_blockscale, alphas, problem_sizes,
                                                     expert_offsets, blockscale_offsets);
  binding::require_gemm_device(call, binding::kBlackwell, out, a, b, a_blockscale, b_blockscale);
  const tvm::ffi::CUDADeviceGuard guard(a.device().device_id);
  const bool bf16 = out.dtype() == binding::kBfloat16;
  binding::require_dense("workspace", workspace, a.device(), binding::kUint8,
                         {blackwell_workspace(call.experts, bf16, form)});
  if (call.rows == 0) return;
  const char* refused =
      (bf16 ? run_bf16 : run_f16)(call, checked_form(form), workspace.data_ptr(), device::stream_of(a));
  if (refused != nullptr) throw tvm::ffi::Error("RuntimeError", std::string("CUTLASS: ") + refused, "");
  device::check(cudaGetLastError(), "launch of the grouped GEMM");
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(blackwell_workspace, blackwell_workspace);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(grouped_gemm_blackwell, grouped_gemm_blackwell);

}  // namespace nvfp4_moe::blackwell

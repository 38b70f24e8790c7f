// CUDA binding of Hopper's grouped GEMM: checks, tensor maps, launch; and of the plain dequantization.
#include "device_binding.h"
#include "gemm_checks.h"
#include "gemm_launch.h"
#include "gemm_prepare.cuh"

namespace nvfp4_moe::gemm {
namespace {

using binding::TensorView;
using device::check;

GemmArguments arguments(const TensorView& out, const TensorView& a, const TensorView& b, const TensorView& a_blockscale,
                        const TensorView& b_blockscale, const TensorView& alphas, const TensorView& problem_sizes,
                        const TensorView& expert_offsets, const TensorView& blockscale_offsets) {
  device::require_cuda(a);
  const GemmArguments call = binding::gemm_arguments(out, a, b, a_blockscale, b_blockscale, alphas, problem_sizes,
                                                     expert_offsets, blockscale_offsets);
  binding::require_gemm_device(call, binding::kHopper, out, a, b, a_blockscale, b_blockscale);
  return call;
}

int form_for(const GemmArguments& call) { return ceil_div(call.rows, call.experts) <= kFewRows ? 0 : 1; }

// `rows` is bfloat16 (rows, K rounded up to 128) and `tile_ends` int32 (E,): room that the caller lends. `form` -1 lets the
// shapes choose.
void grouped_gemm_hopper(TensorView out, TensorView a, TensorView b, TensorView a_blockscale, TensorView b_blockscale,
                         TensorView alphas, TensorView problem_sizes, TensorView expert_offsets,
                         TensorView blockscale_offsets, TensorView rows, TensorView tile_ends, int64_t form) {
  const GemmArguments call = arguments(out, a, b, a_blockscale, b_blockscale, alphas, problem_sizes, expert_offsets,
                                       blockscale_offsets);
  binding::require_dense("rows", rows, a.device(), binding::kBfloat16, {call.rows, round_up(call.k, kStepK)});
  binding::require_dense("tile_ends", tile_ends, a.device(), binding::kInt32, {call.experts});
  binding::require_range("form", form, -1, kForms - 1);
  if (call.rows == 0) return;
  const tvm::ffi::CUDADeviceGuard guard(a.device().device_id);
  const Workspace workspace{binding::data<uint16_t>(rows), binding::data<int32_t>(tile_ends)};
  const int chosen = form < 0 ? form_for(call) : static_cast<int>(form);
  const auto launch = out.dtype() == binding::kBfloat16 ? launch_bf16 : launch_f16;
  check(launch(call, workspace, chosen, device::stream_of(a)), "launch of the grouped GEMM");
}

// The plain form's first step: both operands as bfloat16, (rows, K) and (E, N, K).
void dequantize_operands(TensorView out, TensorView a, TensorView b, TensorView a_blockscale, TensorView b_blockscale,
                         TensorView alphas, TensorView problem_sizes, TensorView expert_offsets,
                         TensorView blockscale_offsets, TensorView rows, TensorView weights) {
  const GemmArguments call = arguments(out, a, b, a_blockscale, b_blockscale, alphas, problem_sizes, expert_offsets,
                                       blockscale_offsets);
  binding::require_dense("rows", rows, a.device(), binding::kBfloat16, {call.rows, call.k});
  binding::require_dense("weights", weights, a.device(), binding::kBfloat16, {call.experts, call.n, call.k});
  binding::require_range("the number of experts", call.experts, 1, 65'535);
  const tvm::ffi::CUDADeviceGuard guard(a.device().device_id);
  const cudaStream_t stream = device::stream_of(a);
  if (call.rows > 0) {
    dequantize_rows_kernel<<<static_cast<uint32_t>(call.rows), kPrepareThreads, 0, stream>>>(call,
                                                                                             binding::data<uint16_t>(rows));
  }
  const dim3 grid(static_cast<uint32_t>(call.n), static_cast<uint32_t>(call.experts));
  dequantize_weights_kernel<<<grid, kPrepareThreads, 0, stream>>>(call, binding::data<uint16_t>(weights));
  check(cudaGetLastError(), "launch of the dequantization");
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(grouped_gemm_hopper, grouped_gemm_hopper);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(dequantize_operands, dequantize_operands);

}  // namespace nvfp4_moe::gemm

// CUDA binding of the quantizers: checks, device, stream.
#include "device_binding.h"
#include "quantize_launch.h"

namespace nvfp4_moe::device {
namespace {

constexpr int64_t kInputAlignment = 16;   // vector loads
constexpr int64_t kPackedAlignment = 8;   // one block's codes
constexpr int64_t kScaleAlignment = 16;   // four rows of one word column
constexpr int64_t kMostMaskedExperts = 65'535;

void require_aligned_tensors(const QuantizeArguments& call, const TensorView& output, const TensorView& output_scale,
                             const TensorView& input) {
  binding::require_aligned("input", input, kInputAlignment);
  binding::require_aligned("output", output, kPackedAlignment);
  binding::require_aligned("output_scale", output_scale, kScaleAlignment);
  if (call.input_stride % (kInputAlignment / 2) != 0) {
    binding::value_error(binding::Text() << "input rows must lie a multiple of 8 elements apart, got " << call.input_stride);
  }
}

void run(const QuantizeArguments& call, const TensorView& output, const TensorView& output_scale,
         const TensorView& input, const Optional<TensorView>& silu_values, bool fused, bool ieee, bool zero_padding) {
  require_aligned_tensors(call, output, output_scale, input);
  if (fused && ieee) {
    if (!silu_values.has_value()) binding::value_error(binding::Text() << "arithmetic ieee needs the table of SiLU values");
    binding::require_dense("silu_values", silu_values.value(), input.device(), binding::kFloat32, {65536});
  }
  if (call.rows == 0) return;
  const tvm::ffi::CUDADeviceGuard guard(input.device().device_id);
  const QuantizeOptions options{fused, ieee, zero_padding, binding::data_or_null<float>(silu_values)};
  const auto launch = input.dtype() == binding::kBfloat16 ? quantize_bf16 : quantize_f16;
  check(launch(call, options, stream_of(input)), "launch of the quantization kernel");
}

void quantize_experts(TensorView output, TensorView output_scale, TensorView input, TensorView input_global_scale,
                      TensorView expert_offsets, TensorView blockscale_offsets, Optional<TensorView> source_rows,
                      Optional<TensorView> silu_values, bool fused, bool ieee, bool zero_padding) {
  require_cuda(input);
  if (fused && source_rows.has_value()) binding::value_error(binding::Text() << "the fused form takes no input_map");
  const QuantizeArguments call = binding::ragged_arguments(output, output_scale, input, input_global_scale,
                                                           expert_offsets, blockscale_offsets, source_rows, fused);
  run(call, output, output_scale, input, silu_values, fused, ieee, zero_padding);
}

void quantize_masked(TensorView output, TensorView output_scale, TensorView input, TensorView input_global_scale,
                     TensorView masked_m, Optional<TensorView> silu_values, bool fused, bool ieee, bool zero_padding) {
  require_cuda(input);
  const QuantizeArguments call =
      binding::masked_arguments(output, output_scale, input, input_global_scale, masked_m, fused);
  binding::require_range("experts of the masked form", call.experts, 1, kMostMaskedExperts);
  run(call, output, output_scale, input, silu_values, fused, ieee, zero_padding);
}

// The yardstick of a benchmark: the loads and stores of `quantize_experts` on bfloat16, without its arithmetic.
void roof_experts(TensorView output, TensorView output_scale, TensorView input, TensorView input_global_scale,
                  TensorView expert_offsets, TensorView blockscale_offsets, bool fused, bool zero_padding) {
  require_cuda(input);
  binding::require_dtype("input", input, {binding::kBfloat16});
  const QuantizeArguments call = binding::ragged_arguments(output, output_scale, input, input_global_scale,
                                                           expert_offsets, blockscale_offsets, {}, fused);
  require_aligned_tensors(call, output, output_scale, input);
  if (call.rows == 0) return;
  const tvm::ffi::CUDADeviceGuard guard(input.device().device_id);
  check(roof(call, QuantizeOptions{fused, false, zero_padding, nullptr}, stream_of(input)), "launch of the roof kernel");
}

// The same of a kernel as plain as can be. `scale_rows`: int32 (rows,), the row of output_scale that each row's scales
// go to; `beside`: int32 (rows,), the padding that it zeroes (`PaddingBeside`, 4 for next_piece); values are the caller's to
// get right.
void plain_roof_experts(TensorView output, TensorView output_scale, TensorView input, TensorView input_global_scale,
                        TensorView expert_offsets, TensorView blockscale_offsets, TensorView scale_rows, TensorView beside,
                        bool fused) {
  require_cuda(input);
  binding::require_dtype("input", input, {binding::kBfloat16});
  const QuantizeArguments call = binding::ragged_arguments(output, output_scale, input, input_global_scale,
                                                           expert_offsets, blockscale_offsets, {}, fused);
  require_aligned_tensors(call, output, output_scale, input);
  binding::require_dense("scale_rows", scale_rows, input.device(), binding::kInt32, {call.rows});
  binding::require_dense("beside", beside, input.device(), binding::kInt32, {call.rows});
  if (call.rows == 0) return;
  const tvm::ffi::CUDADeviceGuard guard(input.device().device_id);
  check(plain_roof(call, binding::data<int32_t>(scale_rows), binding::data<int32_t>(beside), fused,
                   stream_of(input)), "launch of the plain roof kernel");
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(quantize_experts, quantize_experts);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(quantize_masked, quantize_masked);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(roof_experts, roof_experts);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(plain_roof_experts, plain_roof_experts);

}  // namespace nvfp4_moe::device

// Host twin of the grouped GEMM behind the same checks as the kernels, and the values that a kernel cannot check in time.
#include "gemm_checks.h"
#include "gemm_host.h"
#include "host_binding.h"

namespace nvfp4_moe::host {
namespace {

using binding::Text;
using binding::value_error;

void check_values(const GemmArguments& call) {
  int64_t end = 0;
  for (int32_t e = 0; e < call.experts; ++e) {
    const int32_t* sizes = call.problem_sizes + int64_t{3} * e;
    if (sizes[0] < 0) value_error(Text() << "problem_sizes[" << e << ", 0] must not be negative, got " << sizes[0]);
    if (sizes[1] != call.n || sizes[2] != call.k) {
      value_error(Text() << "problem_sizes[" << e << "] must be (rows, " << call.n << ", " << call.k << ") as b is, got ("
                         << sizes[0] << ", " << sizes[1] << ", " << sizes[2] << ")");
    }
    const int64_t first = call.expert_offsets[e];
    if (first < end || first + sizes[0] > call.rows) {
      value_error(Text() << "expert_offsets[" << e << "] must leave " << sizes[0] << " rows in [" << end << ", " << call.rows
                         << "), got " << first);
    }
    end = first + sizes[0];
    const int64_t scale_row = call.blockscale_offsets[e];
    if (scale_row < 0 || scale_row % kTileRows != 0 || scale_row + round_up(sizes[0], kTileRows) > call.scale_rows) {
      value_error(Text() << "blockscale_offsets[" << e << "] must be a multiple of 128 that leaves "
                         << round_up(sizes[0], kTileRows) << " of " << call.scale_rows << " scale rows, got " << scale_row);
    }
  }
}

void grouped_gemm_host(TensorView out, TensorView a, TensorView b, TensorView a_blockscale, TensorView b_blockscale,
                       TensorView alphas, TensorView problem_sizes, TensorView expert_offsets, TensorView blockscale_offsets,
                       int64_t threads, int64_t seed, bool count_writers) {
  require_cpu(a);
  const GemmArguments call = binding::gemm_arguments(out, a, b, a_blockscale, b_blockscale, alphas, problem_sizes,
                                                     expert_offsets, blockscale_offsets);
  check_values(call);
  with_type(out, [&](auto type) {
    with_writer(count_writers, [&](const auto& write) {
      grouped_gemm<decltype(type)>(call, write, schedule_of(threads, seed));
    });
  });
}

// For tests: the refusals of the kernels' launchers, which see shapes, strides and addresses alone.
void check_gemm(TensorView out, TensorView a, TensorView b, TensorView a_blockscale, TensorView b_blockscale,
                TensorView alphas, TensorView problem_sizes, TensorView expert_offsets, TensorView blockscale_offsets,
                bool blackwell) {
  const GemmArguments call = binding::gemm_arguments(out, a, b, a_blockscale, b_blockscale, alphas, problem_sizes,
                                                     expert_offsets, blockscale_offsets);
  binding::require_gemm_device(call, blackwell ? binding::kBlackwell : binding::kHopper, out, a, b, a_blockscale,
                               b_blockscale);
}

// For tests: the operand of all 16 codes and 256 scale bytes in all 8 places of a word, and the order of K in a step.
void gemm_operands(TensorView out) {
  binding::require_dense("out", out, out.device(), binding::kFloat32, {8, 16, 256});
  float* to = binding::data<float>(out);
  for (int place = 0; place < 8; ++place) {
    for (int code = 0; code < 16; ++code) {
      for (int scale = 0; scale < 256; ++scale) {
        *to++ = operand(static_cast<uint8_t>(code), static_cast<uint8_t>(scale), place);
      }
    }
  }
}

void gemm_order_of_k(TensorView out) {
  binding::require_dense("out", out, out.device(), binding::kInt32, {kStepK});
  for (int32_t p = 0; p < kStepK; ++p) binding::data<int32_t>(out)[p] = column_of_position(p);
}

// The expert of each tile by the search that the kernels do; `ends` are running sums of tiles.
void gemm_experts_of_tiles(TensorView out, TensorView ends) {
  binding::require_dense("ends", ends, out.device(), binding::kInt32, {ends.size(0)});
  binding::require_dense("out", out, out.device(), binding::kInt32, {out.size(0)});
  const auto experts = static_cast<int32_t>(ends.size(0));
  for (int32_t tile = 0; tile < static_cast<int32_t>(out.size(0)); ++tile) {
    binding::data<int32_t>(out)[tile] = expert_of_tile(binding::data<int32_t>(ends), experts, tile);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(grouped_gemm_host, grouped_gemm_host);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(check_gemm, check_gemm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm_operands, gemm_operands);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm_order_of_k, gemm_order_of_k);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gemm_experts_of_tiles, gemm_experts_of_tiles);

}  // namespace nvfp4_moe::host

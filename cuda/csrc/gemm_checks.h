// Checks of the grouped GEMM's arguments at the door, shared by the host twin, Hopper's kernel and Blackwell's.
#pragma once

#include "checks.h"
#include "nvfp4_moe/gemm.h"

namespace nvfp4_moe::binding {

constexpr int64_t kColumnMultiple = 8;     // of N: 16 bytes of a 16-bit output row
constexpr int64_t kGemmAlignment = 16;     // of codes and outputs

// The scales arrive as bytes.
[[gnu::noinline]] inline GemmArguments gemm_arguments(const TensorView& out, const TensorView& a, const TensorView& b,
                                                      const TensorView& a_blockscale, const TensorView& b_blockscale,
                                                      const TensorView& alphas, const TensorView& problem_sizes,
                                                      const TensorView& expert_offsets,
                                                      const TensorView& blockscale_offsets) {
  const DLDevice device = a.device();
  GemmArguments call{};
  require_dtype("a", a, {kUint8});
  require_shape("a", a, {kAny, kAny});
  require_dtype("b", b, {kUint8});
  require_shape("b", b, {kAny, kAny, kAny});
  const int64_t k = 2 * a.size(1);
  if (k < kBlockSize || k % kBlockSize != 0 || k > kLargestK) {
    value_error(Text() << "K must be a multiple of 16 in [16, 2^27], got " << k << " (a has K / 2 columns)");
  }
  const int64_t n = b.size(1);
  if (n < kColumnMultiple || n % kColumnMultiple != 0 || n > kLargestK) {
    value_error(Text() << "N must be a multiple of 8 in [8, 2^27], got " << n);
  }
  const int64_t experts = b.size(0);
  require_range("the number of experts", experts, 1, kInt32Max - kLongestStep);
  require_range("the number of routed rows", a.size(0), 0, kInt32Max - kTileRows);
  const int64_t scale_columns = scale_words(k) * kTileBlocks;
  require_dense("a", a, device, kUint8, {a.size(0), k / 2});
  require_dense("b", b, device, kUint8, {experts, n, k / 2});
  require_dense("a_blockscale (as bytes)", a_blockscale, device, kUint8, {kAny, scale_columns});
  require_dense("b_blockscale (as bytes)", b_blockscale, device, kUint8, {experts, round_up(n, kTileRows), scale_columns});
  require_dense("alphas", alphas, device, kFloat32, {experts});
  require_dense("problem_sizes", problem_sizes, device, kInt32, {experts, 3});
  require_dense("expert_offsets", expert_offsets, device, kInt32, {experts});
  require_dense("blockscale_offsets", blockscale_offsets, device, kInt32, {experts});
  require_dtype("out", out, {kBfloat16, kFloat16});
  require_dense("out", out, device, out.dtype(), {a.size(0), n});
  call.a = data<uint8_t>(a);
  call.a_scale = data<uint8_t>(a_blockscale);
  call.b = data<uint8_t>(b);
  call.b_scale = data<uint8_t>(b_blockscale);
  call.alphas = data<float>(alphas);
  call.problem_sizes = data<int32_t>(problem_sizes);
  call.expert_offsets = data<int32_t>(expert_offsets);
  call.blockscale_offsets = data<int32_t>(blockscale_offsets);
  call.out = data<uint16_t>(out);
  call.rows = a.size(0);
  call.scale_rows = a_blockscale.size(0);
  call.n = static_cast<int32_t>(n);
  call.k = static_cast<int32_t>(k);
  call.experts = static_cast<int32_t>(experts);
  return call;
}

// What a device kernel asks for beyond that.
struct GemmDevice {
  const char* name;
  int64_t k_multiple;
  int64_t scale_alignment;  // bytes
};

// Rows of codes lie a multiple of 16 bytes apart for the copy engine.
constexpr GemmDevice kHopper{"Hopper", 32, 16};
// Whole scale words: the tensor cores multiply what is past K / 16 by codes of zero, and a NaN there would spread.
constexpr GemmDevice kBlackwell{"Blackwell", 64, 128};

[[gnu::noinline]] inline void require_gemm_device(const GemmArguments& call, const GemmDevice& kernel,
                                                  const TensorView& out, const TensorView& a, const TensorView& b,
                                                  const TensorView& a_blockscale, const TensorView& b_blockscale) {
  if (call.k % kernel.k_multiple != 0) {
    value_error(Text() << "K must be a multiple of " << kernel.k_multiple << " for the " << kernel.name << " kernel, got "
                       << call.k << ": pad K of weights and rows with zero codes");
  }
  require_aligned("out", out, kGemmAlignment);
  require_aligned("a", a, kGemmAlignment);
  require_aligned("b", b, kGemmAlignment);
  require_aligned("a_blockscale", a_blockscale, kernel.scale_alignment);
  require_aligned("b_blockscale", b_blockscale, kernel.scale_alignment);
}

}  // namespace nvfp4_moe::binding

// The two yardsticks of a benchmark: what the memory system leaves to be reached. Their outputs are meaningless.
#include "quantize_launch.cuh"

namespace nvfp4_moe::device {
namespace {

// One thread a block, one thread block a row, nothing looked up but where the row's scales go and which padding lies beside
// them: as near to a copy as a kernel with these loads and stores comes. `beside`: words_behind, 4 more for next_piece.
template <bool kFused>
__global__ void __launch_bounds__(1024) plain_roof_kernel(const __grid_constant__ QuantizeArguments call,
                                                          const int32_t* scale_rows, const int32_t* beside) {
  const auto row = static_cast<int64_t>(blockIdx.x);
  let_next_start();
  wait_for_previous();
  const auto scale_row = static_cast<uint32_t>(scale_rows[row]);
  const PaddingBeside padding{beside[row] % 4, beside[row] >= 4};
  const int32_t blocks = call.k / kBlockSize;
  const auto words = static_cast<int32_t>(scale_words(call.k));
  uint8_t* scales = call.block_scale + row_byte_128x4(scale_row, static_cast<uint32_t>(words));
  const auto threads = static_cast<int32_t>(blockDim.x);
  for (auto block = static_cast<int32_t>(threadIdx.x); block < round_up(words * kTileBlocks, 32); block += threads) {
    uint2 mixed = make_uint2(0, 0);
    if (block < blocks) {
      const uint16_t* from = call.input + row * int64_t{call.input_stride} + block * kBlockSize;
      const Registers x = load_block(from);
      Registers up{};
      if constexpr (kFused) up = load_block(from + call.k);
      mixed = unquantized<kFused>(x, up).packed;
      store_once(call.packed + row * (call.k / 2) + block * (kBlockSize / 2), mixed);
    }
    store_scales(scales, static_cast<uint32_t>(block), static_cast<uint8_t>(mixed.x), padding, block < words * kTileBlocks);
  }
}

}  // namespace

cudaError_t roof(const QuantizeArguments& call, const QuantizeOptions& options, cudaStream_t stream) {
  if (options.fused) return launch_kernel<Bfloat16, true, Form::kRagged>(call, NoArithmetic{}, options, stream);
  return launch_kernel<Bfloat16, false, Form::kRagged>(call, NoArithmetic{}, options, stream);
}

cudaError_t plain_roof(const QuantizeArguments& call, const int32_t* scale_rows, const int32_t* beside, bool fused,
                       cudaStream_t stream) {
  const int64_t threads = std::min<int64_t>(round_up(scale_words(call.k) * kTileBlocks, 32), 1024);
  const auto kernel = fused ? plain_roof_kernel<true> : plain_roof_kernel<false>;
  return launch_early(kernel, dim3(static_cast<uint32_t>(call.rows)), dim3(static_cast<uint32_t>(threads)), 0, stream, call,
                      scale_rows, beside);
}

}  // namespace nvfp4_moe::device

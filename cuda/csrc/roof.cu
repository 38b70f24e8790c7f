// The two yardsticks of a benchmark: what the memory system leaves to be reached. Their outputs are meaningless.
#include "quantize_launch.cuh"

namespace nvfp4_moe::device {
namespace {

// One thread a block, one thread block a row, nothing looked up but where the row's scales go: as near to a copy as a
// kernel with these loads and stores comes.
template <bool kFused>
__global__ void __launch_bounds__(1024)
    plain_roof_kernel(const __grid_constant__ QuantizeArguments call, const int32_t* scale_rows) {
  const auto row = static_cast<int64_t>(blockIdx.x);
  let_next_start();
  wait_for_previous();
  const auto scale_row = static_cast<uint32_t>(scale_rows[row]);
  const int32_t blocks = call.k / kBlockSize;
  const auto words = static_cast<uint32_t>(scale_words(call.k));
  for (auto block = static_cast<int32_t>(threadIdx.x); block < blocks; block += static_cast<int32_t>(blockDim.x)) {
    const uint16_t* from = call.input + row * int64_t{call.input_stride} + block * kBlockSize;
    uint4 low = *reinterpret_cast<const uint4*>(from);
    uint4 high = *reinterpret_cast<const uint4*>(from + kBlockSize / 2);
    if constexpr (kFused) {
      const uint4 up_low = *reinterpret_cast<const uint4*>(from + call.k);
      const uint4 up_high = *reinterpret_cast<const uint4*>(from + call.k + kBlockSize / 2);
      low = make_uint4(low.x ^ up_low.x, low.y ^ up_low.y, low.z ^ up_low.z, low.w ^ up_low.w);
      high = make_uint4(high.x ^ up_high.x, high.y ^ up_high.y, high.z ^ up_high.z, high.w ^ up_high.w);
    }
    const uint2 mixed = make_uint2(low.x ^ low.y ^ low.z ^ low.w, high.x ^ high.y ^ high.z ^ high.w);
    store_once(call.packed + row * (call.k / 2) + block * (kBlockSize / 2), mixed);
    call.block_scale[row_byte_128x4(scale_row, words) + block_byte_128x4(static_cast<uint32_t>(block))] =
        static_cast<uint8_t>(mixed.x);
  }
}

}  // namespace

cudaError_t roof(const QuantizeArguments& call, const QuantizeOptions& options, cudaStream_t stream) {
  if (options.fused) return launch_kernel<Bfloat16, true, Form::kRagged>(call, NoArithmetic{}, options, stream);
  return launch_kernel<Bfloat16, false, Form::kRagged>(call, NoArithmetic{}, options, stream);
}

cudaError_t plain_roof(const QuantizeArguments& call, const int32_t* scale_rows, bool fused, cudaStream_t stream) {
  const int64_t threads = std::min<int64_t>(round_up(call.k / kBlockSize, 32), 1024);
  const auto kernel = fused ? plain_roof_kernel<true> : plain_roof_kernel<false>;
  return launch_early(kernel, dim3(static_cast<uint32_t>(call.rows)), dim3(static_cast<uint32_t>(threads)), 0, stream, call,
                      scale_rows);
}

}  // namespace nvfp4_moe::device

// Moving rows and swizzling scales on the GPU: `shuffle_piece`, `unpermuted_element`, `swizzle_word` and
// `unswizzle_byte` of the shared headers, one thread a piece, pieces in grid-stride loops.
#include "device_binding.h"

namespace nvfp4_moe::device {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 20;

template <class Word>
__global__ void __launch_bounds__(kThreads) shuffle_kernel(const __grid_constant__ ShuffleArguments call) {
  const int64_t pieces = call.row_bytes / static_cast<int64_t>(sizeof(Word));
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
    for (int64_t piece = threadIdx.x; piece < pieces; piece += kThreads) {
      const int64_t source = call.map[row];
      Word word{};
      if (source >= 0 && source < call.source_rows) {
        word = reinterpret_cast<const Word*>(call.input + source * call.input_stride)[piece];
      }
      reinterpret_cast<Word*>(call.output + row * call.row_bytes)[piece] = word;
    }
  }
}

template <class Type>
__global__ void __launch_bounds__(kThreads) unpermute_kernel(const __grid_constant__ UnpermuteArguments call) {
  const int64_t live_rows = live_rows_of(call);
  for (int64_t token = blockIdx.x; token < call.tokens; token += gridDim.x) {
    for (int64_t column = threadIdx.x; column < call.k; column += kThreads) {
      call.output[token * call.k + column] = unpermuted_element<Type>(call, token, column, live_rows);
    }
  }
}

// The same for eight neighbouring columns.
template <class Type>
__global__ void __launch_bounds__(kThreads) unpermute_x8_kernel(const __grid_constant__ UnpermuteArguments call) {
  const int64_t live_rows = live_rows_of(call);
  for (int64_t token = blockIdx.x; token < call.tokens; token += gridDim.x) {
    for (int64_t column = 8 * threadIdx.x; column < call.k; column += 8 * kThreads) {
      float sum[8] = {};
      for (int32_t j = 0; j < call.topk; ++j) {
        const int64_t source = call.map[token * call.topk + j];
        if (source < 0 || source >= live_rows) continue;
        const float weight = call.weights[token * call.topk + j];
        const uint4 raw = *reinterpret_cast<const uint4*>(call.input + source * call.k + column);
        const uint32_t pair[4] = {raw.x, raw.y, raw.z, raw.w};
        for (int i = 0; i < 4; ++i) {
          sum[2 * i] = sum[2 * i] + weight * Type::to_float(static_cast<uint16_t>(pair[i] & 0xFFFF));
          sum[2 * i + 1] = sum[2 * i + 1] + weight * Type::to_float(static_cast<uint16_t>(pair[i] >> 16));
        }
      }
      uint32_t out[4];
      for (int i = 0; i < 4; ++i) {
        out[i] = static_cast<uint32_t>(Type::from_float(sum[2 * i + 1])) << 16 | Type::from_float(sum[2 * i]);
      }
      *reinterpret_cast<uint4*>(call.output + token * call.k + column) = make_uint4(out[0], out[1], out[2], out[3]);
    }
  }
}

__global__ void __launch_bounds__(kThreads) swizzle_kernel(const __grid_constant__ SwizzleArguments call) {
  const int64_t words = ceil_div(call.blocks, kTileBlocks);
  const int64_t padded_rows = round_up(call.rows, call.tile_rows);
  for (int64_t row = blockIdx.x; row < call.experts * padded_rows; row += gridDim.x) {
    for (int64_t word = threadIdx.x; word < words; word += kThreads) {
      swizzle_word(call, row / padded_rows, row % padded_rows, word, Store{});
    }
  }
}

__global__ void __launch_bounds__(kThreads) unswizzle_kernel(const __grid_constant__ SwizzleArguments call) {
  for (int64_t row = blockIdx.x; row < call.experts * call.rows; row += gridDim.x) {
    for (int64_t block = threadIdx.x; block < call.blocks; block += kThreads) {
      unswizzle_byte(call, row / call.rows, row % call.rows, block, Store{});
    }
  }
}

uint32_t grid_of(int64_t rows) { return static_cast<uint32_t>(rows < kMostBlocks ? rows : kMostBlocks); }

bool whole_words(const ShuffleArguments& call, int64_t word) {
  const int64_t bits = reinterpret_cast<int64_t>(call.input) | reinterpret_cast<int64_t>(call.output) | call.row_bytes |
                       call.input_stride;
  return bits % word == 0;
}

void shuffle_rows(TensorView output, TensorView input, TensorView map) {
  require_cuda(input);
  const ShuffleArguments call = binding::shuffle_arguments(output, input, map);
  if (call.rows == 0 || call.row_bytes == 0) return;
  const tvm::ffi::CUDADeviceGuard guard(input.device().device_id);
  const cudaStream_t stream = stream_of(input);
  if (whole_words(call, 16)) {
    shuffle_kernel<uint4><<<grid_of(call.rows), kThreads, 0, stream>>>(call);
  } else if (whole_words(call, 4)) {
    shuffle_kernel<uint32_t><<<grid_of(call.rows), kThreads, 0, stream>>>(call);
  } else {
    shuffle_kernel<uint8_t><<<grid_of(call.rows), kThreads, 0, stream>>>(call);
  }
  check(cudaGetLastError(), "launch of the gather");
}

template <class Type>
void launch_unpermute(const UnpermuteArguments& call, cudaStream_t stream) {
  const int64_t bits = reinterpret_cast<int64_t>(call.input) | reinterpret_cast<int64_t>(call.output) | 2 * call.k;
  if (bits % 16 == 0) {
    unpermute_x8_kernel<Type><<<grid_of(call.tokens), kThreads, 0, stream>>>(call);
  } else {
    unpermute_kernel<Type><<<grid_of(call.tokens), kThreads, 0, stream>>>(call);
  }
}

void unpermute_rows(TensorView output, TensorView input, TensorView map, TensorView weights, TensorView expert_offsets) {
  require_cuda(input);
  const UnpermuteArguments call = binding::unpermute_arguments(output, input, map, weights, expert_offsets);
  if (call.tokens == 0 || call.k == 0) return;
  const tvm::ffi::CUDADeviceGuard guard(input.device().device_id);
  const auto launch = input.dtype() == binding::kBfloat16 ? launch_unpermute<Bfloat16> : launch_unpermute<Float16>;
  launch(call, stream_of(input));
  check(cudaGetLastError(), "launch of the weighted un-permute");
}

void swizzle_scales(TensorView output, TensorView linear, int64_t tile_rows) {
  require_cuda(linear);
  SwizzleArguments call = binding::swizzle_arguments(output, linear, tile_rows);
  call.linear_in = binding::data<uint8_t>(linear);
  call.out = binding::data<uint8_t>(output);
  if (output.numel() == 0) return;
  binding::require_aligned("output", output, kTileBlocks);
  const tvm::ffi::CUDADeviceGuard guard(linear.device().device_id);
  const int64_t rows = call.experts * round_up(call.rows, call.tile_rows);
  swizzle_kernel<<<grid_of(rows), kThreads, 0, stream_of(linear)>>>(call);
  check(cudaGetLastError(), "launch of the swizzle");
}

void unswizzle_scales(TensorView output, TensorView swizzled, int64_t tile_rows) {
  require_cuda(swizzled);
  SwizzleArguments call = binding::swizzle_arguments(swizzled, output, tile_rows);
  call.swizzled_in = binding::data<uint8_t>(swizzled);
  call.out = binding::data<uint8_t>(output);
  if (output.numel() == 0) return;
  const tvm::ffi::CUDADeviceGuard guard(swizzled.device().device_id);
  unswizzle_kernel<<<grid_of(call.experts * call.rows), kThreads, 0, stream_of(swizzled)>>>(call);
  check(cudaGetLastError(), "launch of the unswizzle");
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(shuffle_rows, shuffle_rows);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(unpermute_rows, unpermute_rows);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(swizzle_scales, swizzle_scales);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(unswizzle_scales, unswizzle_scales);

}  // namespace nvfp4_moe::device

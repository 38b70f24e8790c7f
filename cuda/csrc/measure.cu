// What the approximate instructions return on the present GPU: the reciprocal over one binade, and SiLU over every
// 16-bit input. The sequences are `ChipArithmetic` of nvfp4_moe/arithmetic.h, the very code of the kernels.
#include "device_binding.h"

namespace nvfp4_moe::device {
namespace {

constexpr int kThreads = 256;
constexpr int32_t kMantissas = 1 << 23;
constexpr int32_t kPatterns = 1 << 16;

// ulps[m] = bits(measured 1/x) - bits(correctly rounded 1/x) for x = base_bits + m.
__global__ void reciprocal_kernel(int32_t* ulps, uint32_t base_bits) {
  const auto m = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  const float x = __uint_as_float(base_bits + static_cast<uint32_t>(m));
  const float measured = ChipArithmetic{}.reciprocal(x);
  ulps[m] = __float_as_int(measured) - __float_as_int(__frcp_rn(x));
}

template <class Type>
__global__ void silu_kernel(int32_t* bits) {
  const auto pattern = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  bits[pattern] = __float_as_int(ChipArithmetic{}.silu<Type>(static_cast<uint16_t>(pattern)));
}

void measure_reciprocal(TensorView ulps, int64_t base_bits) {
  require_cuda(ulps);
  binding::require_dense("ulps", ulps, ulps.device(), binding::kInt32, {kMantissas});
  binding::require_range("base_bits", base_bits, 0, binding::kInt32Max);
  const tvm::ffi::CUDADeviceGuard guard(ulps.device().device_id);
  reciprocal_kernel<<<kMantissas / kThreads, kThreads, 0, stream_of(ulps)>>>(binding::data<int32_t>(ulps),
                                                                            static_cast<uint32_t>(base_bits));
  check(cudaGetLastError(), "launch of the reciprocal measurement");
}

void measure_silu(TensorView bits, bool bfloat16) {
  require_cuda(bits);
  binding::require_dense("bits", bits, bits.device(), binding::kInt32, {kPatterns});
  const tvm::ffi::CUDADeviceGuard guard(bits.device().device_id);
  const auto kernel = bfloat16 ? silu_kernel<Bfloat16> : silu_kernel<Float16>;
  kernel<<<kPatterns / kThreads, kThreads, 0, stream_of(bits)>>>(binding::data<int32_t>(bits));
  check(cudaGetLastError(), "launch of the SiLU measurement");
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(measure_reciprocal, measure_reciprocal);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(measure_silu, measure_silu);

}  // namespace nvfp4_moe::device

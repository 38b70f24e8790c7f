// The operations in which the two arithmetics differ (see `reference/arithmetic.py`).
//
// ieee      1/x correctly rounded, subnormals kept; SiLU is the real value rounded once to float32, read from a table of
//           all 65,536 inputs of the 16-bit type.
// hardware  on a GPU: rcp.approx.ftz.f32 and __fdividef(x, 1 + __expf(-x)), as the public kernels compute.
//           on the host: the same results from tables that were measured on a chip.
//
// Products are single IEEE multiplications in all of them: build with -ffp-contract=off and -fmad=false.
#pragma once

#include "formats.h"

namespace nvfp4_moe {

struct IeeeArithmetic {
  const float* silu_values;  // (65536,) by input bits; null where the op has no SiLU

  NVFP4_HD float reciprocal(float x) const {
#if defined(__CUDA_ARCH__)
    return __frcp_rn(x);
#else
    return 1.0f / x;
#endif
  }

  template <class Type>
  NVFP4_HD float silu(uint16_t bits) const {
    return silu_values[bits];
  }
};

// Results measured on a chip. Entry m of `reciprocal_ulps` moves the correctly rounded reciprocal of every number with
// mantissa m; numbers outside the normal range follow the flush-to-zero rule of the instruction.
struct TableArithmetic {
  const float* silu_values;
  const int8_t* reciprocal_ulps;  // (2^23,)

  NVFP4_HD float reciprocal(float x) const {
    constexpr uint32_t kMinNormal = 0x00800000u;
    constexpr uint32_t kInfinity = 0x7F800000u;
    constexpr uint32_t kLargestWithNormalReciprocal = 0x7E800000u;  // 2^126
    const uint32_t sign = bits_of(x) & kSignBit;
    const uint32_t magnitude = bits_of(x) & ~kSignBit;
    if (magnitude > kInfinity) return float_of(kQuietNan);
    if (magnitude < kMinNormal) return float_of(sign | kInfinity);
    if (magnitude > kLargestWithNormalReciprocal) return float_of(sign);
    const int32_t exact = static_cast<int32_t>(bits_of(1.0f / x));
    return float_of(static_cast<uint32_t>(exact + reciprocal_ulps[magnitude & 0x7FFFFFu]));
  }

  template <class Type>
  NVFP4_HD float silu(uint16_t bits) const {
    return silu_values[bits];
  }
};

#if defined(__CUDACC__)
struct ChipArithmetic {
  __device__ __forceinline__ float reciprocal(float x) const {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }

  template <class Type>
  __device__ __forceinline__ float silu(uint16_t bits) const {
    const float x = Type::to_float(bits);
    return __fdividef(x, 1.0f + __expf(-x));
  }
};
#endif

}  // namespace nvfp4_moe

// The number formats: bfloat16 and float16 inputs, E2M1 codes, E4M3 scale bytes.
//
// Rules (those of cvt.rn.satfinite.e2m1x2.f32 and cvt.rn.satfinite.e4m3x2.f32): round to nearest, ties to even,
// saturating; -0 keeps its sign; a NaN becomes code 7 or byte 0x7F whatever its sign. `reference/casts.py` is the
// golden model of the same rules, and the tests compare every input.
#pragma once

#include "common.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

namespace nvfp4_moe {

constexpr uint32_t kSignBit = 0x80000000u;
constexpr uint32_t kQuietNan = 0x7FFFFFFFu;  // the NaN that GPU instructions return
constexpr float kE2m1Max = 6.0f;
constexpr float kE4m3Max = 448.0f;
constexpr uint8_t kE4m3Nan = 0x7F;
constexpr uint32_t kReciprocalOf6 = 0x3E2AAAABu;  // fl(1/6); rcp.approx.ftz.f32(6) has the same bits

// --- 16-bit inputs -------------------------------------------------------------------------------------------------

struct Bfloat16 {
  static constexpr uint16_t kInfinity = 0x7F80;  // a greater magnitude is a NaN

  static NVFP4_HD float to_float(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

  static NVFP4_HD uint16_t from_float(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    return value != value ? static_cast<uint16_t>(0x7FFF) : static_cast<uint16_t>(rounded);
  }
};

struct Float16 {
  static constexpr uint16_t kInfinity = 0x7C00;

  static NVFP4_HD float to_float(uint16_t bits) {
#if defined(__CUDA_ARCH__)
    return __half2float(__ushort_as_half(bits));
#else
    // 2^112 moves the exponent field from bias 15 to bias 127; it makes float16 subnormals normal, exactly.
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7FFF) << 13;
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    const uint32_t finite = bits_of(float_of(magnitude) * 0x1p112f);
    return float_of(sign | ((bits & 0x7FFF) >= kInfinity ? magnitude + 0x70000000u : finite));
#endif
  }

  static NVFP4_HD uint16_t from_float(float value) {
#if defined(__CUDA_ARCH__)
    return __half_as_ushort(__float2half_rn(value));
#else
    const uint32_t sign = (bits_of(value) >> 16) & 0x8000u;
    const uint32_t bits = bits_of(value) & ~kSignBit;
    if (bits > 0x7F800000u) return 0x7FFF;
    if (bits >= 0x47800000u) return static_cast<uint16_t>(sign | kInfinity);       // 65,536 and above
    if (bits < 0x38800000u) {                                                      // below the least normal, 2^-14
      const uint32_t steps = bits_of(float_of(bits) + 0.5f) - 0x3F000000u;         // one ulp of 0.5 is 2^-24
      return static_cast<uint16_t>(sign | steps);
    }
    const uint32_t rounded = bits + 0xFFFu + ((bits >> 13) & 1u);                  // may carry into infinity
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
#endif
  }
};

// --- scale bytes ---------------------------------------------------------------------------------------------------

NVFP4_HD uint8_t encode_e4m3(float value) {
#if defined(__CUDA_ARCH__)
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
#else
  const uint32_t sign = (bits_of(value) >> 24) & 0x80u;
  const float magnitude = float_of(bits_of(value) & ~kSignBit);
  if (magnitude != magnitude) return kE4m3Nan;
  if (magnitude >= kE4m3Max) return static_cast<uint8_t>(sign | 0x7E);
  const uint32_t bits = bits_of(magnitude);
  const uint32_t normal = ((bits + 0x7FFFFu + ((bits >> 20) & 1u)) >> 20) - (120u << 3);
  const uint32_t subnormal = bits_of(magnitude + 0x1p14f) - 0x46800000u;  // one ulp of 2^14 is 2^-9
  return static_cast<uint8_t>(sign | (magnitude < 0x1p-6f ? subnormal : normal));
#endif
}

NVFP4_HD float decode_e4m3(uint8_t byte) {
  const uint32_t sign = static_cast<uint32_t>(byte & 0x80) << 24;
  if ((byte & 0x7F) == kE4m3Nan) return float_of(sign | kQuietNan);
  // Read the fields as a float32 of bias 127 and move the exponent to bias 7; the product is exact.
  const float magnitude = float_of(static_cast<uint32_t>(byte & 0x7F) << 20) * 0x1p120f;
  return float_of(sign | bits_of(magnitude));
}

// --- element codes -------------------------------------------------------------------------------------------------

// Around magnitude v the grid of E2M1 has step 1/2 below 2, step 1 below 4 and step 2 up to 6. Adding 2^23 rounds to an
// integer, ties to even, so code = min(rn(2v), rn(v) + 2, rn(v/2) + 4): each term is exact in its own range and larger
// than the code elsewhere.
NVFP4_HD uint32_t encode_e2m1(float value) {
  constexpr float kInteger = 0x1p23f;
  const float magnitude = float_of(bits_of(value) & ~kSignBit);
  const float v = magnitude < kE2m1Max ? magnitude : kE2m1Max;  // a NaN compares false and becomes 6
  const float half_steps = v * 2.0f + kInteger;
  const float whole_steps = v + (kInteger + 2.0f);
  const float double_steps = v * 0.5f + (kInteger + 4.0f);
  const float low = half_steps < whole_steps ? half_steps : whole_steps;
  const uint32_t code = bits_of(low < double_steps ? low : double_steps) & 7u;
  const uint32_t sign = value != value ? 0u : (bits_of(value) >> 28) & 8u;
  return code | sign;
}

}  // namespace nvfp4_moe

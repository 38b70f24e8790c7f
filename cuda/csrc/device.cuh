// Single instructions that the kernels use by name.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "nvfp4_moe/formats.h"

// Targets with the hardware E2M1 convert: the `a` and `f` targets of Blackwell.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 && \
    (defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__))
#define NVFP4_HARDWARE_E2M1 1
#else
#define NVFP4_HARDWARE_E2M1 0
#endif

namespace nvfp4_moe::device {

// Copies `bytes` (0 or 16) from global to shared memory in the background, and fills up to 16 with zeros. Nothing is read
// for 0 bytes, wherever `global` points.
__device__ __forceinline__ void copy_async(uint32_t shared, const void* global, int32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copies_issued() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the last kPending groups of this thread have arrived.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Programmatic dependent launch: the kernels are launched while the one before them on the stream still runs, and wait here
// until all its writes can be seen, before they read or write anything. `let_next_start` allows the same to the next
// kernel; one that was not launched so waits for the end of this one, as ever.
__device__ __forceinline__ void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void let_next_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Launches a kernel that begins so.
template <class... Parameters, class... Arguments>
cudaError_t launch_early(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                         const Arguments&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

__device__ __forceinline__ void store_once(void* to, uint2 value) { __stcs(static_cast<uint2*>(to), value); }

// Byte i of the result is the byte of b:a that nibble i of the selector names, or, with bit 3 set, that byte's sign
// bit eight times (which __byte_perm does not promise).
template <uint32_t kSelector>
__device__ __forceinline__ uint32_t permute(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "n"(kSelector));
  return result;
}

// Larger magnitude of two 16-bit numbers in each half; a NaN wins (Propagate) or loses. The sign bits are of no use.
template <class Type, bool kPropagateNan>
__device__ __forceinline__ uint32_t larger_magnitudes(uint32_t a, uint32_t b) {
  uint32_t result;
  if constexpr (Type::kInfinity == Bfloat16::kInfinity) {
    if constexpr (kPropagateNan) {
      asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    } else {
      asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    }
  } else {
    if constexpr (kPropagateNan) {
      asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    } else {
      asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    }
  }
  return result;
}

// The two numbers of a register as float32.
template <class Type>
__device__ __forceinline__ float low_half(uint32_t pair) {
  if constexpr (Type::kInfinity == Bfloat16::kInfinity) {
    return __uint_as_float(pair << 16);
  } else {
    return Type::to_float(static_cast<uint16_t>(pair & 0xFFFF));
  }
}

template <class Type>
__device__ __forceinline__ float high_half(uint32_t pair) {
  if constexpr (Type::kInfinity == Bfloat16::kInfinity) {
    return __uint_as_float(pair & 0xFFFF0000u);
  } else {
    return Type::to_float(static_cast<uint16_t>(pair >> 16));
  }
}

// Two float32 rounded to the 16-bit type, `low` in the lower half.
template <class Type>
__device__ __forceinline__ uint32_t round_pair(float low, float high) {
  uint32_t pair;
  if constexpr (Type::kInfinity == Bfloat16::kInfinity) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
}

#if NVFP4_HARDWARE_E2M1
// Eight float32 to eight codes, element 0 in the lowest nibble.
__device__ __forceinline__ uint32_t encode_e2m1_x8(const float (&v)[8]) {
  uint32_t word;
  asm("{\n"
      ".reg .b8 b0, b1, b2, b3;\n"
      "cvt.rn.satfinite.e2m1x2.f32 b0, %2, %1;\n"
      "cvt.rn.satfinite.e2m1x2.f32 b1, %4, %3;\n"
      "cvt.rn.satfinite.e2m1x2.f32 b2, %6, %5;\n"
      "cvt.rn.satfinite.e2m1x2.f32 b3, %8, %7;\n"
      "mov.b32 %0, {b0, b1, b2, b3};\n"
      "}"
      : "=r"(word)
      : "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "f"(v[4]), "f"(v[5]), "f"(v[6]), "f"(v[7]));
  return word;
}
#endif

// How many of the ascending `values` are <= `wanted`; all 32 lanes of a warp ask the same and get the same. In steps of
// 32 probes: two or three dependent reads, cheap in shared memory.
__device__ __forceinline__ int32_t count_not_above(const int32_t* values, int32_t count, int32_t wanted) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  int32_t first = 0;
  for (;;) {
    const int32_t step = (count + 31) / 32;
    const int32_t at = lane * step;
    const bool below = at < count && values[first + at] <= wanted;
    const int32_t found = __popc(__ballot_sync(0xFFFFFFFFu, below));
    if (step <= 1 || found == 0) return first + found;
    first += (found - 1) * step;
    count = min(step, count - (found - 1) * step);
  }
}

// The same by reading everything, many reads at a time: one round trip to global memory for each kBatch * 32 values.
__device__ __forceinline__ int32_t count_not_above_at_once(const int32_t* values, int32_t count, int32_t wanted) {
  constexpr int kBatch = 12;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  int32_t found = 0;
#pragma unroll 1
  for (int32_t first = 0; first < count; first += kBatch * 32) {
    bool below[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int32_t at = first + i * 32 + lane;
      below[i] = at < count && values[at] <= wanted;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) found += __popc(__ballot_sync(0xFFFFFFFFu, below[i]));
  }
  return found;
}

}  // namespace nvfp4_moe::device

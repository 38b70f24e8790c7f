// Hopper's instructions that the grouped GEMM uses by name: barriers, bulk copies, asynchronous matrix products.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace nvfp4_moe::gemm {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- barriers in shared memory -------------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ready;\n"
      "bra again;\n"
      "ready:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// --- bulk copies into shared memory --------------------------------------------------------------------------------

__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int32_t x, int32_t y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int32_t x, int32_t y,
                                         int32_t z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
          to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

__device__ __forceinline__ void copy_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

// --- registers -----------------------------------------------------------------------------------------------------

template <int kCount>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// --- operands ------------------------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t multiply_bf16x2(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

// Two E4M3 bytes as float32, the lower byte first. NaN stays NaN.
__device__ __forceinline__ void decode_e4m3_pair(uint16_t bytes, float& first, float& second) {
  asm("{\n"
      ".reg .b32 pair;\n"
      ".reg .b16 low, high;\n"
      "cvt.rn.f16x2.e4m3x2 pair, %2;\n"
      "mov.b32 {low, high}, pair;\n"
      "cvt.f32.f16 %0, low;\n"
      "cvt.f32.f16 %1, high;\n"
      "}\n"
      : "=f"(first), "=f"(second)
      : "h"(bytes));
}

// One float32 as two equal bfloat16.
__device__ __forceinline__ uint32_t twice_bf16(float value) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(pair) : "f"(value));
  return pair;
}

// --- asynchronous products -----------------------------------------------------------------------------------------

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_issued() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// A tile of rows of 128 bytes in the 128-byte swizzle, K innermost, groups of eight rows 1,024 bytes apart: its descriptor
// is the constant upper word and a lower one with the address in units of 16 bytes. Bytes further on are added to the lower
// word alone, which keeps the instructions between two products few.
constexpr uint32_t kTileAbove = 1u << 30 | 1024u >> 4;
constexpr uint32_t kTileUnused = 1u << 16;

__device__ __forceinline__ uint32_t tile_word(uint32_t address) { return kTileUnused | address >> 4; }
constexpr uint32_t tile_bytes(uint32_t bytes) { return bytes >> 4; }

}  // namespace nvfp4_moe::gemm

// wgmma.mma_async m64nNk16, bfloat16 operands, float32 sums, A in registers and B in shared memory: `Product<N>`.
//
// sums[4j + 2h + i] of a lane (quad g = lane / 4, t = lane % 4) is row g + 8h of its warp's 16, column 8j + 2t + i.
#pragma once

#include <cstdint>

#include "gemm_ptx.cuh"

namespace nvfp4_moe::gemm {

template <int kColumns>
struct Product;

// The numbers of a decade, "%p0, ..., %p9", and the operands of consecutive sums.
#define NVFP4_TEN(p) "%" #p "0, %" #p "1, %" #p "2, %" #p "3, %" #p "4, %" #p "5, %" #p "6, %" #p "7, %" #p "8, %" #p "9"
#define NVFP4_0_TO_9 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9"
#define NVFP4_0_TO_29 NVFP4_0_TO_9 ", " NVFP4_TEN(1) ", " NVFP4_TEN(2)
#define NVFP4_0_TO_59 NVFP4_0_TO_29 ", " NVFP4_TEN(3) ", " NVFP4_TEN(4) ", " NVFP4_TEN(5)
#define NVFP4_0_TO_89 NVFP4_0_TO_59 ", " NVFP4_TEN(6) ", " NVFP4_TEN(7) ", " NVFP4_TEN(8)
#define NVFP4_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define NVFP4_SUMS_8(i) NVFP4_SUMS_4(i), NVFP4_SUMS_4(i + 4)
#define NVFP4_SUMS_16(i) NVFP4_SUMS_8(i), NVFP4_SUMS_8(i + 8)
#define NVFP4_SUMS_32(i) NVFP4_SUMS_16(i), NVFP4_SUMS_16(i + 16)
#define NVFP4_SUMS_64(i) NVFP4_SUMS_32(i), NVFP4_SUMS_32(i + 32)

// `inputs` names the four registers of A, numbered behind the sums; `low` and `high` the two words of B's descriptor.
#define NVFP4_PRODUCT(columns, text, inputs, low, high, ...)                                                         \
  template <>                                                                                                        \
  struct Product<columns> {                                                                                          \
    static __device__ __forceinline__ void add(float (&sums)[columns / 2], const uint32_t (&a)[4], uint32_t b) {     \
      asm volatile("{\n.reg .pred add;\n.reg .b64 tile;\nsetp.eq.u32 add, 0, 0;\nmov.b64 tile, {" low ", " high "};\n" \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" text "}, " inputs              \
                   ", tile, add, 1, 1, 0;\n}"                                                                        \
                   : __VA_ARGS__                                                                                     \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(kTileAbove));                           \
    }                                                                                                                \
  };

NVFP4_PRODUCT(8, "%0, %1, %2, %3", "{%4, %5, %6, %7}", "%8", "%9", NVFP4_SUMS_4(0))
NVFP4_PRODUCT(16, "%0, %1, %2, %3, %4, %5, %6, %7", "{%8, %9, %10, %11}", "%12", "%13", NVFP4_SUMS_8(0))
NVFP4_PRODUCT(32, NVFP4_0_TO_9 ", %10, %11, %12, %13, %14, %15", "{%16, %17, %18, %19}", "%20", "%21", NVFP4_SUMS_16(0))
NVFP4_PRODUCT(64, NVFP4_0_TO_29 ", %30, %31", "{%32, %33, %34, %35}", "%36", "%37", NVFP4_SUMS_32(0))
NVFP4_PRODUCT(128, NVFP4_0_TO_59 ", %60, %61, %62, %63", "{%64, %65, %66, %67}", "%68", "%69", NVFP4_SUMS_64(0))
NVFP4_PRODUCT(192, NVFP4_0_TO_89 ", %90, %91, %92, %93, %94, %95", "{%96, %97, %98, %99}", "%100", "%101", NVFP4_SUMS_64(0),
              NVFP4_SUMS_32(64))
NVFP4_PRODUCT(256,
              NVFP4_0_TO_89 ", " NVFP4_TEN(9) ", " NVFP4_TEN(10) ", " NVFP4_TEN(
                  11) ", %120, %121, %122, %123, %124, %125, %126, %127",
              "{%128, %129, %130, %131}", "%132", "%133", NVFP4_SUMS_64(0), NVFP4_SUMS_64(64))

#undef NVFP4_PRODUCT
#undef NVFP4_SUMS_64
#undef NVFP4_SUMS_32
#undef NVFP4_SUMS_16
#undef NVFP4_SUMS_8
#undef NVFP4_SUMS_4
#undef NVFP4_0_TO_89
#undef NVFP4_0_TO_59
#undef NVFP4_0_TO_29
#undef NVFP4_0_TO_9
#undef NVFP4_TEN

}  // namespace nvfp4_moe::gemm

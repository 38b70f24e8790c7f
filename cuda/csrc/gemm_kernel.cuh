// The grouped GEMM of Hopper: weights stay NVFP4 in memory and become bfloat16 on their way to the tensor cores.
//
// out^T = W x^T. A unit of work is `kGroups` * 64 columns of out (rows of W) by one tile of routed rows of one expert; a
// persistent grid takes units in turn. One warp copies, per step of 128 of K, the tile of x (bfloat16, prepared by
// gemm_prepare.cuh), the codes and the scales of W into a ring in shared memory. Each of the `kGroups` warpgroups turns the
// codes of its 64 rows of W into registers, the A operand of wgmma, with x as B.
//
// The sum of an element runs over K in one order, whatever the tile: the same products m64nNk16, one after the other, into
// one register. N alone depends on the number of rows, and no product of one row of x enters another's sum.
#pragma once

#include "device.cuh"
#include "gemm_ptx.cuh"
#include "gemm_wgmma.cuh"
#include "nvfp4_moe/gemm.h"

namespace nvfp4_moe::gemm {

constexpr int kGroupThreads = 128;
constexpr int kGroupRows = 64;
constexpr int kHalfK = 64;                     // columns of a swizzled row of x: 128 bytes
constexpr int kHalfRowBytes = 2 * kHalfK;
constexpr int kRowsOfSmallBox = 8;
constexpr int kRowsOfLargeBox = 64;
constexpr int kCodeBytes = kStepK / 2;         // of a row of W in a step
constexpr int kAtomBytes = kTileRows * kTileBlocks;
constexpr int kRegistersOfAll = 65'536;
constexpr int kRegisterGrain = 8;

template <int kGroups_, int kMostRows_, int kStages_, int kRegisters_, int kCopyRegisters_>
struct Shape {
  static constexpr int kGroups = kGroups_;      // warpgroups that multiply
  static constexpr int kMostRows = kMostRows_;  // rows of x in a unit
  static constexpr int kStages = kStages_;
  static constexpr int kRegisters = kRegisters_;          // of a thread that multiplies
  static constexpr int kCopyRegisters = kCopyRegisters_;  // of a thread of the warpgroup that copies
  static constexpr int kThreads = kGroupThreads * (kGroups + 1);
  static constexpr int kColumns = kGroups * kGroupRows;
  static constexpr int kCodesAt = kMostRows * 2 * kHalfRowBytes;
  static constexpr int kScalesAt = kCodesAt + kColumns * kCodeBytes;
  static constexpr int kStageBytes = kScalesAt + kColumns / kTileRows * 2 * kAtomBytes;
  static constexpr int kBarriersAt = kStages * kStageBytes;
  static constexpr int kSharedBytes = kBarriersAt + 16 * kStages + 1024;  // 1,024: the base is aligned by hand
  // What the threads hand around is what the block was launched with; more is waited for without end.
  static constexpr int kLaunchRegisters = kRegistersOfAll / kThreads / kRegisterGrain * kRegisterGrain;
  static_assert(kMostRows == 64 || kMostRows == 256, "tiles of rows that multiply_all has");
  static_assert(kGroups * kRegisters + kCopyRegisters <= (kGroups + 1) * kLaunchRegisters, "no such registers");
};

struct KernelArguments {
  GemmArguments call;
  const int32_t* tile_ends;  // (E,) running sums of row tiles
  int32_t column_tiles;
  int32_t steps;             // of K
};

struct Unit {
  int32_t expert;
  int32_t first_row;
  int32_t rows;
  int32_t column;
};

template <class S>
__device__ __forceinline__ Unit unit_of(const KernelArguments& given, int64_t number) {
  const int32_t tile = static_cast<int32_t>(number / given.column_tiles);
  const int32_t expert = expert_of_tile(given.tile_ends, given.call.experts, tile);
  const int32_t before = expert == 0 ? 0 : given.tile_ends[expert - 1];
  const ExpertRows rows = expert_rows(given.call, expert);
  const int32_t first = (tile - before) * S::kMostRows;
  return Unit{expert, rows.first + first, min(S::kMostRows, rows.count - first),
              static_cast<int32_t>(number % given.column_tiles) * S::kColumns};
}

// N of the products for a tile of `rows`: the least that holds it.
template <class S>
__device__ __forceinline__ int32_t padded_rows(int32_t rows) {
  if (rows <= 8) return 8;
  if (rows <= 16) return 16;
  if (rows <= 32) return 32;
  if (rows <= 64) return 64;
  return rows <= 128 ? 128 : rows <= 192 ? 192 : 256;
}

// Where a stage of the ring is, and which turn of it.
template <class S>
struct Ring {
  uint32_t base;
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ uint32_t stage_address() const { return base + stage * S::kStageBytes; }
  __device__ __forceinline__ uint32_t full() const { return base + S::kBarriersAt + 8 * stage; }
  __device__ __forceinline__ uint32_t empty() const { return base + S::kBarriersAt + 8 * (S::kStages + stage); }
  __device__ __forceinline__ void next() {
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

struct Maps {
  CUtensorMap codes;      // bytes (E, N, K / 2), boxes of 64 bytes of 128 rows
  CUtensorMap small_box;  // x, bfloat16 (rows, padded K), boxes of 64 columns of 8 rows
  CUtensorMap large_box;  // the same of 64 rows
};

// --- copying -------------------------------------------------------------------------------------------------------

template <class S>
__device__ __forceinline__ void copy_step(const KernelArguments& given, const Maps& maps, const Unit& unit, int32_t step,
                                          const Ring<S>& ring) {
  const int32_t tokens = padded_rows<S>(unit.rows);
  const int64_t words = scale_words(given.call.k);
  const int32_t atoms = min(2, static_cast<int32_t>(words) - 2 * step);
  const int32_t row_tiles_here = min(S::kColumns / kTileRows, static_cast<int32_t>(ceil_div(given.call.n - unit.column, kTileRows)));
  barrier_expect(ring.full(), tokens * 2 * kHalfRowBytes + S::kColumns * kCodeBytes + row_tiles_here * atoms * kAtomBytes);
  const uint32_t to = ring.stage_address();
  const int64_t slab = unit.expert * b_scale_slab(given.call.n, given.call.k);
#pragma unroll
  for (int i = 0; i < S::kColumns / kTileRows; ++i) {
    const int32_t column = unit.column + i * kTileRows;
    copy_box(to + S::kCodesAt + i * kTileRows * kCodeBytes, &maps.codes, ring.full(), step * kCodeBytes, column, unit.expert);
    if (i < row_tiles_here) {
      copy_bytes(to + S::kScalesAt + i * 2 * kAtomBytes,
                 given.call.b_scale + slab + column * (words * kTileBlocks) + int64_t{2 * step} * kAtomBytes,
                 atoms * kAtomBytes, ring.full());
    }
  }
  const bool small = tokens % kRowsOfLargeBox != 0;
  const int32_t box = small ? kRowsOfSmallBox : kRowsOfLargeBox;
  for (int32_t half = 0; half < 2; ++half) {
    for (int32_t row = 0; row < tokens; row += box) {
      copy_box(to + (half * tokens + row) * kHalfRowBytes, small ? &maps.small_box : &maps.large_box, ring.full(),
               step * kStepK + half * kHalfK, unit.first_row + row);
    }
  }
}

template <class S>
__device__ __forceinline__ void copy_all(const KernelArguments& given, const Maps& maps, Ring<S> ring, int64_t units) {
  for (int64_t number = blockIdx.x; number < units; number += gridDim.x) {
    const Unit unit = unit_of<S>(given, number);
    for (int32_t step = 0; step < given.steps; ++step) {
      barrier_wait(ring.empty(), ring.parity ^ 1);
      copy_step<S>(given, maps, unit, step, ring);
      ring.next();
    }
  }
}

// --- multiplying ---------------------------------------------------------------------------------------------------

// A lane's place: two rows of its warp's 16, and the two blocks in a step that it turns into operands. Lanes of odd quads
// hold the two rows in the other order: eight lanes that read 16 bytes each then meet every bank once.
struct Lane {
  int32_t pair;    // first of the two neighbouring rows, of the unit's columns
  int32_t odd;     // 0, or 1 where the rows are swapped
  int32_t inside;  // lane of the quad

  __device__ __forceinline__ explicit Lane(int32_t thread)
      : pair(thread / 32 * 16 + thread % 32 / 4 * 2), odd(thread / 4 % 2), inside(thread % 4) {}
  __device__ __forceinline__ int32_t row(int half) const { return pair + (half ^ odd); }
};

struct LaneCodes {
  uint32_t word[4];    // 32 codes
  uint32_t scale[2];   // of words 0 and 1, and of words 2 and 3: two equal bfloat16
};

template <class S>
__device__ __forceinline__ LaneCodes load_codes(uint32_t stage, const Lane& lane, int half, bool inside_k) {
  const int32_t row = lane.row(half);
  LaneCodes codes;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(codes.word[0]), "=r"(codes.word[1]), "=r"(codes.word[2]), "=r"(codes.word[3])
               : "r"(stage + S::kCodesAt + row * kCodeBytes + lane.inside * 16));
  const uint32_t at = stage + S::kScalesAt + row / kTileRows * 2 * kAtomBytes + lane.inside / 2 * kAtomBytes +
                      row % kTileLanes * 16 + row % kTileRows / kTileLanes * kTileBlocks + lane.inside % 2 * 2;
  uint16_t bytes;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bytes) : "r"(at));
  if (!inside_k) bytes = 0;  // the padding of K is whatever its writer left
  float first, second;
  decode_e4m3_pair(bytes, first, second);
  codes.scale[0] = twice_bf16(first * kWeightScaleFactor);
  codes.scale[1] = twice_bf16(second * kWeightScaleFactor);
  return codes;
}

// The A operands of the two products that one word of a lane's codes feeds.
__device__ __forceinline__ void make_operands(uint32_t (&operands)[2][4], const LaneCodes (&codes)[2], int word) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t scale = codes[half].scale[word / 2];
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      operands[pair / 2][half + pair % 2 * 2] = multiply_bf16x2(raw_pair(codes[half].word[word], pair), scale);
    }
  }
}

template <int kTokens>
__device__ __forceinline__ void multiply_two(float (&sums)[kTokens / 2], const uint32_t (&operands)[2][4], uint32_t tile) {
  products_begin();
  Product<kTokens>::add(sums, operands[0], tile);
  Product<kTokens>::add(sums, operands[1], tile + tile_bytes(2 * kProductK));
  products_issued();
}

template <class Type, int kTokens>
__device__ __forceinline__ void store_sums(const KernelArguments& given, const Unit& unit, const Lane& lane,
                                           const float (&sums)[kTokens / 2]) {
  const int32_t column = unit.column + lane.pair;
  if (column >= given.call.n) return;
  const float alpha = given.call.alphas[unit.expert];
  uint16_t* out = given.call.out + int64_t{unit.first_row} * given.call.n + column;
#pragma unroll
  for (int i = 0; i < kTokens / 4; ++i) {
    const int32_t row = i / 2 * 8 + lane.inside * 2 + i % 2;
    if (row >= unit.rows) continue;
    const float first = sums[i / 2 * 4 + i % 2], second = sums[i / 2 * 4 + i % 2 + 2];
    const float low = alpha * (lane.odd ? second : first), high = alpha * (lane.odd ? first : second);
    *reinterpret_cast<uint32_t*>(out + int64_t{row} * given.call.n) = device::round_pair<Type>(low, high);
  }
}

template <class S, class Type, int kTokens>
__device__ __forceinline__ void multiply_unit(const KernelArguments& given, const Unit& unit, const Lane& lane, Ring<S>& ring) {
  float sums[kTokens / 2];
#pragma unroll
  for (float& sum : sums) sum = 0.0f;
  const bool arrives = threadIdx.x % 32 == 0;
  const int32_t blocks = given.call.k / kBlockSize;
  uint32_t operands[2][2][4];
  uint32_t before = 0;
#pragma unroll 1
  for (int32_t step = 0; step < given.steps; ++step) {
    barrier_wait(ring.full(), ring.parity);
    const uint32_t stage = ring.stage_address(), tile = tile_word(stage);
    const bool inside_k = step * kStepBlocks + 2 * lane.inside < blocks;
    const LaneCodes codes[2] = {load_codes<S>(stage, lane, 0, inside_k), load_codes<S>(stage, lane, 1, inside_k)};
    __syncwarp();  // one lane will say for all that the stage was read
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      make_operands(operands[word % 2], codes, word);
      const int bytes = word / 2 * kTokens * kHalfRowBytes + word % 2 * 4 * kProductK;
      multiply_two<kTokens>(sums, operands[word % 2], tile + tile_bytes(bytes));
      wait_for_products<1>();  // those of the word before are done with their operands
      if (word == 0 && step > 0 && arrives) barrier_arrive(before);  // and with the last stage
    }
    before = ring.empty();
    ring.next();
  }
  wait_for_products<0>();
  if (arrives) barrier_arrive(before);
  store_sums<Type, kTokens>(given, unit, lane, sums);
}

template <class S, class Type>
__device__ __forceinline__ void multiply_all(const KernelArguments& given, Ring<S> ring, int64_t units) {
  const Lane lane(static_cast<int32_t>(threadIdx.x) - kGroupThreads);
  for (int64_t number = blockIdx.x; number < units; number += gridDim.x) {
    const Unit unit = unit_of<S>(given, number);
    const int32_t tokens = padded_rows<S>(unit.rows);
    if (tokens == 8) multiply_unit<S, Type, 8>(given, unit, lane, ring);
    if (tokens == 16) multiply_unit<S, Type, 16>(given, unit, lane, ring);
    if (tokens == 32) multiply_unit<S, Type, 32>(given, unit, lane, ring);
    if (tokens == 64) multiply_unit<S, Type, 64>(given, unit, lane, ring);
    if constexpr (S::kMostRows == 256) {
      if (tokens == 128) multiply_unit<S, Type, 128>(given, unit, lane, ring);
      if (tokens == 192) multiply_unit<S, Type, 192>(given, unit, lane, ring);
      if (tokens == 256) multiply_unit<S, Type, 256>(given, unit, lane, ring);
    }
  }
}

template <class S, class Type>
__global__ void __launch_bounds__(S::kThreads, 1)
    gemm_kernel(const __grid_constant__ KernelArguments given, const __grid_constant__ Maps maps) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
  extern __shared__ uint8_t raw_shared[];
  Ring<S> ring{(shared_address(raw_shared) + 1023) / 1024 * 1024};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < S::kStages; ++stage) {
      barrier_init(ring.base + S::kBarriersAt + 8 * stage, 1);
      barrier_init(ring.base + S::kBarriersAt + 8 * (S::kStages + stage), S::kGroups * 4);
    }
    barriers_ready();
  }
  __syncthreads();
  const int64_t units = int64_t{given.tile_ends[given.call.experts - 1]} * given.column_tiles;
  if (threadIdx.x < kGroupThreads) {
    give_registers<S::kCopyRegisters>();
    if (threadIdx.x == 0) copy_all<S>(given, maps, ring, units);
  } else {
    take_registers<S::kRegisters>();
    multiply_all<S, Type>(given, ring, units);
  }
#endif
}

}  // namespace nvfp4_moe::gemm

// The kernel for few rows on a CPU: its own text, a thread of the machine for each of a thread block, held to the host twin.
//
// What the text needs of CUDA stands here: indices, the barrier that counts, the exchange in a warp. The arithmetic of a
// block is the shared body's. STORE_SCALES is a file with the text of `store_scales`.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "host_loops.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static  // thread blocks run one after the other

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct Index {
  uint32_t x = 0;
};
inline thread_local Index threadIdx, blockIdx, blockDim;

struct ThreadBlock {
  explicit ThreadBlock(int threads) : all(threads), lanes(threads) {
    for (int warp = 0; warp < threads / 32; ++warp) warps.push_back(std::make_unique<std::barrier<>>(32));
  }
  std::barrier<> all;
  std::atomic<int> any{0};
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<uint32_t> lanes;
};
inline ThreadBlock* thread_block;

inline int __syncthreads_or(int value) {
  if (value) thread_block->any = 1;
  thread_block->all.arrive_and_wait();
  const int any = thread_block->any;
  thread_block->all.arrive_and_wait();
  if (threadIdx.x == 0) thread_block->any = 0;
  thread_block->all.arrive_and_wait();
  return any;
}

inline uint32_t __shfl_xor_sync(uint32_t, uint32_t value, uint32_t distance) {
  std::barrier<>& warp = *thread_block->warps[threadIdx.x / 32];
  thread_block->lanes[threadIdx.x] = value;
  warp.arrive_and_wait();
  const uint32_t other = thread_block->lanes[threadIdx.x ^ distance];
  warp.arrive_and_wait();
  return other;
}

namespace nvfp4_moe::device {

enum class Form { kRagged, kGathered, kMasked };
struct Registers {
  uint32_t pair[kBlockSize / 2];
};
struct Result {
  uint2 packed;
  uint8_t scale;
};

inline void wait_for_previous() {}
inline void let_next_start() {}
inline void store_once(void* to, uint2 value) { memcpy(to, &value, sizeof value); }

template <class Type, bool kFused, class Arithmetic>
Result quantize_loaded(const QuantizeArguments&, const Registers& x, const Registers&, int32_t, int32_t, float g,
                       float global_reciprocal, const Arithmetic& arithmetic) {
  static_assert(!kFused);
  uint16_t values[kBlockSize];
  memcpy(values, x.pair, sizeof values);
  const QuantizedBlock result = quantize_block<Type>(values, g, global_reciprocal, arithmetic);
  return Result{{static_cast<uint32_t>(result.packed), static_cast<uint32_t>(result.packed >> 32)}, result.scale};
}

#include STORE_SCALES

}  // namespace nvfp4_moe::device

#include "few_rows_kernel.cuh"

namespace {

using namespace nvfp4_moe;
constexpr int64_t kFill = 0xA5;

// A buffer whose first byte lies on a multiple of 16, with some bytes behind it that nobody may touch.
struct Buffer {
  explicit Buffer(int64_t size) : raw(static_cast<size_t>(size + 64), kFill), bytes(size + 32) {}
  uint8_t* data() { return raw.data() + (16 - reinterpret_cast<uintptr_t>(raw.data()) % 16) % 16; }
  std::vector<uint8_t> raw;
  int64_t bytes;
};

struct Case {
  std::vector<int32_t> counts;
  int32_t k;
  bool zero;
  int spare = 3;          // rows that nobody owns
  int64_t missing = 0;    // rows that the scale buffer lacks
};

template <device::Form kForm>
int64_t differing(const Case& one) {
  const auto experts = static_cast<int32_t>(one.counts.size());
  std::vector<int32_t> offsets(1, 0), starts(1, 0), map;
  std::vector<float> scale;
  for (const int32_t count : one.counts) {
    scale.push_back(3.0f + 37.0f * static_cast<float>(scale.size()));
    offsets.push_back(offsets.back() + count);
    starts.push_back(starts.back() + static_cast<int32_t>(round_up(count, kTileRows)));
  }
  const int32_t rows = offsets.back() + one.spare;
  for (int32_t row = 0; row < rows; ++row) map.push_back(row % 7 == 6 ? -1 : rows - 1 - row);
  std::vector<uint16_t> input(static_cast<size_t>(rows) * one.k + 8);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<uint16_t>(host::mix(i));
  const int64_t words = scale_words(one.k);
  const int64_t scale_rows = starts.back() - one.missing;
  Buffer packed[2] = {Buffer(int64_t{rows} * one.k / 2), Buffer(int64_t{rows} * one.k / 2)};
  Buffer scales[2] = {Buffer(scale_rows * words * kTileBlocks), Buffer(scale_rows * words * kTileBlocks)};
  QuantizeArguments call[2] = {};
  for (int i = 0; i < 2; ++i) {
    call[i].input = input.data();
    call[i].global_encode_scale = scale.data();
    call[i].expert_offsets = offsets.data();
    call[i].blockscale_offsets = starts.data();
    if (kForm == device::Form::kGathered) call[i].source_rows = map.data();
    call[i].packed = packed[i].data();
    call[i].block_scale = scales[i].data();
    call[i].rows = call[i].num_source_rows = rows;
    call[i].scale_rows = scale_rows;
    call[i].input_stride = call[i].k = one.k;
    call[i].experts = experts;
  }
  const IeeeArithmetic arithmetic{nullptr};
  const auto padding = one.zero ? host::RowPadding::kZero : host::RowPadding::kUnwritten;
  host::quantize<Bfloat16, false>(call[0], 0, rows, padding, arithmetic, Store{}, host::Schedule{});
  const auto threads = static_cast<uint32_t>(round_up(words * kTileBlocks, 32));
  ThreadBlock block(static_cast<int>(threads));
  thread_block = &block;
  std::vector<std::thread> running;
  for (uint32_t thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      threadIdx.x = thread;
      blockDim.x = threads;
      for (int32_t row = 0; row < rows; ++row) {
        blockIdx.x = static_cast<uint32_t>(row);
        device::few_rows_kernel<Bfloat16, false, kForm, IeeeArithmetic>(call[1], arithmetic, one.zero);
        block.all.arrive_and_wait();  // the next thread block begins where this one has ended
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  int64_t wrong = 0;
  for (int64_t i = 0; i < packed[0].bytes; ++i) wrong += packed[0].data()[i] != packed[1].data()[i];
  for (int64_t i = 0; i < scales[0].bytes; ++i) wrong += scales[0].data()[i] != scales[1].data()[i];
  return wrong;
}

}  // namespace

// Prints how many bytes differ from the host twin's over all cases.
int main() {
  int64_t wrong = 0;
  for (const bool zero : {false, true}) {
    for (const int32_t k : {16, 80, 208}) {
      for (const std::vector<int32_t>& counts : std::vector<std::vector<int32_t>>{
               {1}, {5, 0, 13}, {31, 32, 33, 34}, {0, 1, 2, 0, 3}, {63, 65}, {96, 97}, {127, 128, 129, 1}}) {
        wrong += differing<device::Form::kRagged>(Case{counts, k, zero});
      }
    }
    wrong += differing<device::Form::kGathered>(Case{{0, 1, 2, 0, 3}, 144, zero});
    wrong += differing<device::Form::kRagged>(Case{{5, 130}, 80, zero, 0, kTileRows});
    std::vector<int32_t> many(300, 0);  // more experts than threads
    for (size_t e = 0; e < many.size(); e += 97) many[e] = 2;
    wrong += differing<device::Form::kRagged>(Case{many, 1024, zero});
  }
  std::printf("%lld\n", static_cast<long long>(wrong));
}

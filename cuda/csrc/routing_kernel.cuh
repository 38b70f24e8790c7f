// Routing data on the GPU: the counting sort of nvfp4_moe/routing.h in one launch.
//
// One cluster of up to sixteen thread blocks; a worker is a warp. Counts live in shared memory, one row a warp, and blocks
// read each other's totals through distributed shared memory, so the ids are read twice and nothing else goes through
// global memory but the outputs. A warp counts with atomic additions to its own row, whose order does not matter, and
// places by votes: a lane's rank is the number of lanes below it with the same expert, which keeps the order.
#pragma once

#include <cooperative_groups.h>

#include "nvfp4_moe/routing.h"

namespace nvfp4_moe::device {

namespace cg = cooperative_groups;

constexpr int kWarp = 32;
constexpr int kMostWarps = 32;
constexpr int kPortableBlocks = 8;      // a cluster of this size runs everywhere
constexpr int kMostBlocks = 16;         // where the device allows it
constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

// Calls work(slot, expert) for the slots of a segment, 32 at a time in order, while the next two ids are on their way.
// Lanes behind the segment take part with slot -1 and no expert. Not unrolled: the code runs once or a few times, and
// fetching more of it would take longer than running it.
template <class Id, class Work>
__device__ __forceinline__ void for_slots(const RoutingArguments<Id>& call, const Segment& segment, int lane,
                                          const Work& work) {
  const auto expert_at = [&](int32_t slot) { return slot < segment.last ? expert_of_slot(call, slot) : kNoExpert; };
  int32_t slot = segment.first + lane;
  int32_t now = expert_at(slot);
  int32_t next = expert_at(slot + kWarp);
#pragma unroll 1
  for (int32_t base = segment.first; base < segment.last; base += kWarp, slot += kWarp) {
    const int32_t later = expert_at(slot + 2 * kWarp);
    work(slot < segment.last ? slot : -1, now);
    now = next;
    next = later;
  }
}

// The lanes whose value is the same, values in [-1, 2^bits): one vote a bit, which is faster than match.any here.
__device__ __forceinline__ uint32_t lanes_with_same(int32_t value, int32_t bits) {
  uint32_t same = kAllLanes;
#pragma unroll 4
  for (int32_t bit = 0; bit < bits; ++bit) {
    const bool set = (value >> bit & 1) != 0;
    const uint32_t votes = __ballot_sync(kAllLanes, set);
    same &= set ? votes : ~votes;
  }
  return same;
}

// The token of a lane's slot while the slots go up in steps of a warp: one division, then additions.
struct Token {
  int32_t token;
  int32_t within;  // place among the token's slots

  __device__ __forceinline__ Token(int32_t slot, int32_t topk) : token(slot / topk), within(slot % topk) {}

  __device__ __forceinline__ void step(int32_t whole, int32_t rest, int32_t topk) {
    token += whole;
    within += rest;
    if (within >= topk) {
      within -= topk;
      ++token;
    }
  }
};

// Inclusive sums over the lanes of a warp.
__device__ __forceinline__ int2 warp_scan(int2 sum, int lane) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int x = __shfl_up_sync(kAllLanes, sum.x, distance);
    const int y = __shfl_up_sync(kAllLanes, sum.y, distance);
    if (lane >= distance) sum = make_int2(sum.x + x, sum.y + y);
  }
  return sum;
}

// Exclusive sums over the threads of a block of two numbers; `total` returns the sums of all.
__device__ __forceinline__ int2 block_scan(int2 value, int2* warp_sums, int2& total) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int2 within = warp_scan(value, lane);
  if (lane == kWarp - 1) warp_sums[warp] = within;
  __syncthreads();
  const int2 sums = warp_scan(lane < warps ? warp_sums[lane] : make_int2(0, 0), lane);
  __syncthreads();
  total = make_int2(__shfl_sync(kAllLanes, sums.x, kWarp - 1), __shfl_sync(kAllLanes, sums.y, kWarp - 1));
  int2 before = make_int2(__shfl_sync(kAllLanes, sums.x, max(warp - 1, 0)), __shfl_sync(kAllLanes, sums.y, max(warp - 1, 0)));
  if (warp == 0) before = make_int2(0, 0);
  return make_int2(before.x + within.x - value.x, before.y + within.y - value.y);
}

// The blocks that share the work: one, or a cluster.
template <bool kCluster>
struct Team {
  __device__ __forceinline__ void sync() const {
    if constexpr (kCluster) {
      cg::this_cluster().sync();
    } else {
      __syncthreads();
    }
  }
  __device__ __forceinline__ const int32_t* totals_of(int32_t* mine, int block) const {
    if constexpr (kCluster) {
      return cg::this_cluster().map_shared_rank(mine, static_cast<unsigned>(block));
    } else {
      return mine;
    }
  }
  __device__ __forceinline__ void arrive() const {
    if constexpr (kCluster) cg::this_cluster().barrier_arrive();
  }
  __device__ __forceinline__ void wait() const {
    if constexpr (kCluster) cg::this_cluster().barrier_wait();
  }
};

template <class Id, bool kCluster>
__global__ void __launch_bounds__(kMostWarps* kWarp) routing_kernel(const __grid_constant__ RoutingArguments<Id> call) {
  extern __shared__ int32_t shared[];
  __shared__ int2 warp_sums[kMostWarps];
  const Team<kCluster> team;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  const int lane = thread % kWarp;
  const int warp = thread / kWarp;
  const int warps = threads / kWarp;
  const int block = kCluster ? static_cast<int>(blockIdx.x) : 0;
  const int blocks = kCluster ? static_cast<int>(gridDim.x) : 1;
  int32_t* totals = shared;                  // (E,) of this block; other blocks read it
  int32_t* starts = shared + call.experts;   // (E,) first position of this block's rows
  int32_t* seen = starts + call.experts;     // (warps, E)
  int32_t* mine = seen + warp * call.experts;

  for (int e = lane; e < call.experts; e += kWarp) mine[e] = 0;
  __syncwarp();
  const Segment segment = segment_of(block * warps + warp, blocks * warps, call.slots);
  for_slots(call, segment, lane, [&](int32_t, int32_t expert) {
    if (expert != kNoExpert) atomicAdd(mine + expert, 1);
  });
  __syncthreads();
  for (int e = thread; e < call.experts; e += threads) {
    int32_t sum = 0;
#pragma unroll 8
    for (int w = 0; w < warps; ++w) {
      const int32_t count = seen[w * call.experts + e];
      seen[w * call.experts + e] = sum;
      sum += count;
    }
    totals[e] = sum;
  }
  team.sync();

  int2 running = make_int2(0, 0);  // routed rows and padded rows of the experts before
  for (int first = 0; first < call.experts; first += threads) {
    const int e = first + thread;
    int32_t count = 0;
    int32_t before = 0;
#pragma unroll
    for (int other = 0; other < kMostBlocks; ++other) {
      if (other >= blocks || e >= call.experts) break;
      if (other == block) before = count;
      count += team.totals_of(totals, other)[e];
    }
    const auto padded = static_cast<int32_t>(round_up(count, kTileRows));
    int2 total;
    const int2 offset = block_scan(make_int2(count, padded), warp_sums, total);
    if (e < call.experts) {
      starts[e] = running.x + offset.x + before;
      if (block == 0) write_expert(call, e, count, running.x + offset.x, running.y + offset.y, Store{});
    }
    running = make_int2(running.x + total.x, running.y + total.y);
  }
  team.arrive();
  __syncthreads();

  const int32_t routed_rows = running.x;
  const int32_t bits = 32 - __clz(call.experts);  // -1 has all of them set, which no expert has
  const int32_t whole = kWarp / call.topk;
  const int32_t rest = kWarp % call.topk;
  Token at(segment.first + lane, call.topk);
  for_slots(call, segment, lane, [&](int32_t slot, int32_t expert) {
    const uint32_t peers = lanes_with_same(expert, bits);
    const uint32_t below = peers & ((1u << lane) - 1u);
    if (expert != kNoExpert) {
      place_slot(call, slot, at.token, starts[expert] + mine[expert] + __popc(below), Store{});
    } else if (slot >= 0) {
      skip_slot(call, slot, routed_rows, Store{});
    }
    __syncwarp();
    if (expert != kNoExpert && below == 0) mine[expert] += __popc(peers);
    __syncwarp();
    at.step(whole, rest, call.topk);
  });
  for (int32_t position = routed_rows + block * threads + thread; position < call.slots; position += blocks * threads) {
    clear_tail(call, position, Store{});
  }
  team.wait();  // no block leaves while another may read its totals
}

}  // namespace nvfp4_moe::device

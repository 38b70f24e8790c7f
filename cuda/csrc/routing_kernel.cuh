// Routing data on the GPU: the counting sort of nvfp4_moe/routing.h in one launch.
//
// One cluster of up to eight thread blocks; a worker is a warp. Counts live in shared memory, one row a warp, and blocks
// read each other's totals through distributed shared memory, so the ids are read twice and nothing else goes through
// global memory but the outputs. A warp counts with atomic additions to its own row, whose order does not matter, and
// places by match.any: a lane's rank is the number of lanes below it with the same expert, which keeps the order.
#pragma once

#include <cooperative_groups.h>

#include "nvfp4_moe/routing.h"

namespace nvfp4_moe::device {

namespace cg = cooperative_groups;

constexpr int kWarp = 32;
constexpr int kMostWarps = 32;
constexpr int kFewestWarps = 8;
constexpr int kMostBlocks = 8;          // the portable cluster size
constexpr int kIdsInFlight = 8;         // ids that a lane asks for before it works on the first
constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

// Calls work(slot, expert) for the slots of a segment, 32 at a time in order. Lanes behind the segment take part with
// slot -1 and no expert.
template <class Id, class Work>
__device__ __forceinline__ void for_slots(const RoutingArguments<Id>& call, const Segment& segment, int lane,
                                          const Work& work) {
  for (int32_t base = segment.first; base < segment.last; base += kIdsInFlight * kWarp) {
    int32_t expert[kIdsInFlight];
#pragma unroll
    for (int i = 0; i < kIdsInFlight; ++i) {
      const int32_t slot = base + i * kWarp + lane;
      expert[i] = slot < segment.last ? expert_of_slot(call, slot) : kNoExpert;
    }
#pragma unroll
    for (int i = 0; i < kIdsInFlight; ++i) {
      if (base + i * kWarp >= segment.last) break;
      const int32_t slot = base + i * kWarp + lane;
      work(slot < segment.last ? slot : -1, expert[i]);
    }
  }
}

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
  for_slots(call, segment, lane, [&](int32_t slot, int32_t expert) {
    const uint32_t peers = __match_any_sync(kAllLanes, expert);
    const uint32_t below = peers & ((1u << lane) - 1u);
    if (expert != kNoExpert) {
      place_slot(call, slot, starts[expert] + mine[expert] + __popc(below), Store{});
    } else if (slot >= 0) {
      skip_slot(call, slot, routed_rows, Store{});
    }
    __syncwarp();
    if (expert != kNoExpert && below == 0) mine[expert] += __popc(peers);
    __syncwarp();
  });
  for (int32_t position = routed_rows + block * threads + thread; position < call.slots; position += blocks * threads) {
    clear_tail(call, position, Store{});
  }
  team.wait();  // no block leaves while another may read its totals
}

}  // namespace nvfp4_moe::device

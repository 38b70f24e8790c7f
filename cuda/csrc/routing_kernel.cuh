// Routing data on the GPU: the counting sort of nvfp4_moe/routing.h in one launch.
//
// Divisions by numbers that the host knows are made there (`length`: slots of a worker), since each costs as much as the walk
// over a group of ids. Clusters of up to sixteen thread blocks that know nothing of one another, since waiting for all would cost a launch: each
// places its own slice of the ids, and counts those of the others only, which is cheap. A worker is a warp. Counts live in
// shared memory, one row a warp, and blocks of a cluster read each other's totals through distributed shared memory. The
// first walk over a segment counts, and gives each id its
// rank among the warp's ids of that expert: lanes with the same expert find one another by votes, and a lane's rank is
// what the warp has counted so far plus the number of such lanes below it, which keeps the order. The second walk adds
// offset, earlier workers and rank, and has nothing to wait for. Between the two, expert and rank of each id stay in
// shared memory (`Staged`) or, in large batches, the rank waits in the output that it will become (`Unstaged`); the ids
// are then read a second time. Device memory sees one read of the ids; the clusters' other reads end in the L2 cache.
#pragma once

#include <cooperative_groups.h>

#include "device.cuh"
#include "nvfp4_moe/routing.h"

namespace nvfp4_moe::device {

namespace cg = cooperative_groups;

constexpr int kWarp = 32;
constexpr int kMostWarps = 16;
constexpr int kPortableBlocks = 8;      // a cluster of this size runs everywhere
constexpr int kMostBlocks = 16;         // where the device allows it
constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

// What the first walk leaves for the second about a slot.
struct Ranked {
  int32_t expert;
  int32_t rank;  // among the warp's earlier slots of that expert
};

// In shared memory, expert and rank in one word. A lane reads only what it wrote itself.
template <class Id>
class Staged {
 public:
  static constexpr int32_t kMostExperts = 1 << 15;
  static constexpr int32_t kMostSlots = 1 << 15;  // of a block

  __device__ __forceinline__ Staged(const RoutingArguments<Id>& call, int32_t* stage, int32_t block_first)
      : call_(call), stage_(stage - block_first) {}

  // Brings a lane's ids of a segment in, several at a time.
  __device__ __forceinline__ void fetch(const Segment& segment, int lane) const {
    constexpr int kAtOnce = 4;
#pragma unroll 1
    for (int32_t slot = segment.first + lane; slot < segment.last; slot += kAtOnce * kWarp) {
      int32_t expert[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        expert[i] = slot + i * kWarp < segment.last ? expert_of_slot(call_, slot + i * kWarp) : kNoExpert;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (slot + i * kWarp < segment.last) stage_[slot + i * kWarp] = expert[i] << 16;
      }
    }
  }
  __device__ __forceinline__ int32_t expert(int32_t slot) const { return stage_[slot] >> 16; }
  __device__ __forceinline__ void keep(int32_t slot, const Ranked& ranked) const {
    stage_[slot] = ranked.expert << 16 | ranked.rank;
  }
  __device__ __forceinline__ Ranked kept(int32_t slot) const {
    return Ranked{stage_[slot] >> 16, stage_[slot] & 0xFFFF};
  }

 private:
  const RoutingArguments<Id>& call_;
  int32_t* stage_;
};

// In global memory.
template <class Id>
class Unstaged {
 public:
  __device__ __forceinline__ Unstaged(const RoutingArguments<Id>& call, int32_t*, int32_t) : call_(call) {}

  __device__ __forceinline__ void fetch(const Segment&, int) const {}
  __device__ __forceinline__ int32_t expert(int32_t slot) const { return expert_of_slot(call_, slot); }
  __device__ __forceinline__ void keep(int32_t slot, const Ranked& ranked) const {
    call_.output_permutation[slot] = ranked.rank;
  }
  __device__ __forceinline__ Ranked kept(int32_t slot) const {
    return Ranked{expert_of_slot(call_, slot), call_.output_permutation[slot]};
  }

 private:
  const RoutingArguments<Id>& call_;
};

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
  __device__ __forceinline__ int blocks() const {
    if constexpr (kCluster) return static_cast<int>(cg::this_cluster().num_blocks());
    return 1;
  }
  // This block in its cluster, and the cluster among all: registers that spare a division.
  __device__ __forceinline__ int block() const {
    if constexpr (kCluster) return static_cast<int>(cg::this_cluster().block_rank());
    return 0;
  }
  __device__ __forceinline__ int cluster() const {
    uint32_t number = 0;
    if constexpr (kCluster) asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
    return static_cast<int>(number);
  }
  // Before the end: what a block has read of others it has read, and nothing has to become visible.
  __device__ __forceinline__ void arrive_at_end() const {
    if constexpr (kCluster) asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  }
  __device__ __forceinline__ void wait_at_end() const {
    if constexpr (kCluster) asm volatile("barrier.cluster.wait;" ::: "memory");
  }
};

// The warp's counts of the experts become what its earlier warps have of them; `totals` gets the sums. Reads go ahead of
// the writes, since the compiler cannot see that they do not meet.
__device__ __forceinline__ void sum_over_warps(int32_t* seen, int32_t* totals, int32_t experts, int warps) {
  constexpr int kAtOnce = 8;
#pragma unroll 1
  for (auto e = static_cast<int32_t>(threadIdx.x); e < experts; e += static_cast<int32_t>(blockDim.x)) {
    int32_t sum = 0;
#pragma unroll 1
    for (int first = 0; first < warps; first += kAtOnce) {
      int32_t count[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) count[i] = first + i < warps ? seen[(first + i) * experts + e] : 0;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < warps) seen[(first + i) * experts + e] = sum;
        sum += count[i];
      }
    }
    totals[e] = sum;
  }
}

// Counts of ids outside the cluster's slice, of one block: before it in the lower half, behind it in the upper one.
constexpr int32_t kMostOutside = 0xFFFF;  // ids that a block may count there
constexpr int32_t kOneBehind = 0x10000;

// The block's share of the ids outside [first, last), counted by expert into `outside`.
template <class Id>
__device__ __forceinline__ void count_outside(const RoutingArguments<Id>& call, int32_t first, int32_t last,
                                              int32_t* outside, int block, int blocks) {
  constexpr int kAtOnce = 8;
  const auto threads = static_cast<int32_t>(blockDim.x);
  const int32_t stride = blocks * threads;
#pragma unroll 1
  for (int32_t slot = block * threads + static_cast<int32_t>(threadIdx.x); slot < call.slots; slot += kAtOnce * stride) {
    int32_t expert[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t at = slot + int64_t{i} * stride;
      const bool counts = at < call.slots && (at < first || at >= last);
      expert[i] = counts ? expert_of_slot(call, static_cast<int32_t>(at)) : kNoExpert;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (expert[i] != kNoExpert) atomicAdd(outside + expert[i], slot + i * stride < first ? 1 : kOneBehind);
    }
  }
}

struct Count {
  int32_t all;
  int32_t before;  // in earlier clusters, and earlier blocks of this one
};

// An expert's rows in all blocks; every block is asked at once. `outside` is null where there is one cluster.
template <bool kCluster>
__device__ __forceinline__ Count count_of_expert(const Team<kCluster>& team, int32_t* totals, int32_t* outside, int32_t e,
                                                 int block, int blocks) {
  if constexpr (!kCluster) {
    return Count{totals[e], 0};
  } else {
    int32_t own[kMostBlocks];
    int32_t others[kMostBlocks] = {};
#pragma unroll
    for (int other = 0; other < kMostBlocks; ++other) own[other] = team.totals_of(totals, min(other, blocks - 1))[e];
    if (outside != nullptr) {
#pragma unroll
      for (int other = 0; other < kMostBlocks; ++other) {
        others[other] = team.totals_of(outside, min(other, blocks - 1))[e];
      }
    }
    Count count{0, 0};
#pragma unroll
    for (int other = 0; other < kMostBlocks; ++other) {
      if (other >= blocks) continue;
      count.all += own[other] + (others[other] & kMostOutside) + (static_cast<uint32_t>(others[other]) >> 16);
      count.before += (others[other] & kMostOutside) + (other < block ? own[other] : 0);
    }
    return count;
  }
}

template <class Id, bool kCluster, template <class> class Between>
__global__ void __launch_bounds__(kMostWarps* kWarp)
    routing_kernel(const __grid_constant__ RoutingArguments<Id> call, int32_t length) {
  extern __shared__ int32_t shared[];
  __shared__ int2 warp_sums[kMostWarps];
  const Team<kCluster> team;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  const int lane = thread % kWarp;
  const int warp = thread / kWarp;
  const int warps = threads / kWarp;
  const int blocks = team.blocks();  // of a cluster
  const int block = team.block();
  const int cluster = team.cluster();
  const int all_blocks = static_cast<int>(gridDim.x);
  int32_t* totals = shared;                  // (E,) of this block's ids; other blocks read it
  int32_t* outside = shared + call.experts;  // (E,) of this block's share of the ids outside the slice; likewise
  int32_t* starts = outside + call.experts;  // (E,) first position of this block's rows
  int32_t* seen = starts + call.experts;     // (warps, E)
  int32_t* mine = seen + warp * call.experts;
  const auto segment_at = [&](int64_t worker) { return segment_of(worker, length, call.slots); };
  const Segment segment = segment_at(int64_t{blockIdx.x} * warps + warp);
  const Between<Id> between(call, seen + warps * call.experts, segment_at(int64_t{blockIdx.x} * warps).first);
  let_next_start();
  wait_for_previous();
  between.fetch(segment, lane);

  const bool alone = all_blocks == blocks;
  if (!alone) {
#pragma unroll 1
    for (int e = thread; e < call.experts; e += threads) outside[e] = 0;
    __syncthreads();
    const int64_t workers = int64_t{blocks} * warps;  // of a cluster
    count_outside(call, segment_at(cluster * workers).first, segment_at((cluster + 1) * workers - 1).last, outside, block,
                  blocks);
  }
#pragma unroll 1
  for (int e = lane; e < call.experts; e += kWarp) mine[e] = 0;
  __syncwarp();
  const int32_t bits = 32 - __clz(call.experts);  // -1 has all of them set, which no expert has
#pragma unroll 1
  for (int32_t slot = segment.first + lane; slot - lane < segment.last; slot += kWarp) {
    const int32_t expert = slot < segment.last ? between.expert(slot) : kNoExpert;
    const uint32_t peers = lanes_with_same(expert, bits);
    const uint32_t below = peers & ((1u << lane) - 1u);
    const int32_t earlier = expert != kNoExpert ? mine[expert] : 0;
    __syncwarp();
    if (expert != kNoExpert && below == 0) mine[expert] = earlier + __popc(peers);
    if (slot < segment.last) between.keep(slot, Ranked{expert, expert != kNoExpert ? earlier + __popc(below) : 0});
    __syncwarp();
  }
  __syncthreads();
  sum_over_warps(seen, totals, call.experts, warps);
  team.sync();

  int2 running = make_int2(0, 0);  // routed rows and padded rows of the experts before
#pragma unroll 1
  for (int first = 0; first < call.experts; first += threads) {
    const int e = first + thread;
    const bool live = e < call.experts;
    Count count = count_of_expert(team, totals, alone ? nullptr : outside, min(e, call.experts - 1), block, blocks);
    if (!live) count.all = 0;
    const auto padded = static_cast<int32_t>(round_up(count.all, kTileRows));
    int2 total;
    const int2 offset = block_scan(make_int2(count.all, padded), warp_sums, total);
    if (live) {
      starts[e] = running.x + offset.x + count.before;
      if (blockIdx.x == 0) write_expert(call, e, count.all, running.x + offset.x, running.y + offset.y, Store{});
    }
    running = make_int2(running.x + total.x, running.y + total.y);
  }
  team.arrive_at_end();
  __syncthreads();

  const int32_t routed_rows = running.x;
  const int32_t whole = kWarp / call.topk;
  const int32_t rest = kWarp % call.topk;
  Token at(segment.first + lane, call.topk);
#pragma unroll 2
  for (int32_t slot = segment.first + lane; slot < segment.last; slot += kWarp) {
    const Ranked ranked = between.kept(slot);
    if (ranked.expert != kNoExpert) {
      place_slot(call, slot, at.token, starts[ranked.expert] + mine[ranked.expert] + ranked.rank, Store{});
    } else {
      skip_slot(call, slot, routed_rows, Store{});
    }
    at.step(whole, rest, call.topk);
  }
#pragma unroll 1
  for (int64_t at_slot = routed_rows + int64_t{blockIdx.x} * threads + thread; at_slot < call.slots;
       at_slot += int64_t{all_blocks} * threads) {
    clear_tail(call, static_cast<int32_t>(at_slot), Store{});
  }
  team.wait_at_end();  // no block leaves while another may read its totals
}

}  // namespace nvfp4_moe::device

// Routing data on the GPU: the counting sort of nvfp4_moe/routing.h in one launch.
//
// One cluster of up to eight thread blocks; a worker is a warp. Counts live in shared memory, one row a warp, and blocks
// read each other's totals through distributed shared memory, so the ids are read twice and nothing else goes through
// global memory but the outputs. Inside a warp, lanes with the same expert find each other with match.any; the lowest
// one counts for all, and a lane's place among them is the number of such lanes below it: stable and without atomics.
#include <cooperative_groups.h>

#include <algorithm>

#include "device_binding.h"

namespace nvfp4_moe::device {
namespace {

namespace cg = cooperative_groups;

constexpr int kWarp = 32;
constexpr int kMostWarps = 32;
constexpr int kFewestWarps = 8;
constexpr int kMostBlocks = 8;          // the portable cluster size
constexpr int kIdsInFlight = 8;         // ids that a lane asks for before it works on the first
constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

// Calls work(slot, expert, peers) for the slots of a segment, 32 at a time in order; `peers` are the lanes with the same
// expert. Lanes behind the segment take part with slot -1.
template <class Id, class Work>
__device__ __forceinline__ void for_slots(const RoutingArguments<Id>& call, const Segment& segment, int lane,
                                          const Work& work) {
  for (int64_t base = segment.first; base < segment.last; base += kIdsInFlight * kWarp) {
    int32_t expert[kIdsInFlight];
#pragma unroll
    for (int i = 0; i < kIdsInFlight; ++i) {
      const int64_t slot = base + i * kWarp + lane;
      expert[i] = slot < segment.last ? expert_of_slot(call, slot) : kNoExpert;
    }
#pragma unroll
    for (int i = 0; i < kIdsInFlight; ++i) {
      if (base + i * kWarp >= segment.last) break;
      const int64_t slot = base + i * kWarp + lane;
      work(slot < segment.last ? slot : -1, expert[i], __match_any_sync(kAllLanes, expert[i]));
    }
  }
}

// Exclusive sums over the threads of a block of two numbers; `total` returns the sums of all.
__device__ __forceinline__ int2 block_scan(int2 value, int2* warp_sums, int2& total) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  int2 sum = value;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int x = __shfl_up_sync(kAllLanes, sum.x, distance);
    const int y = __shfl_up_sync(kAllLanes, sum.y, distance);
    if (lane >= distance) sum = make_int2(sum.x + x, sum.y + y);
  }
  if (lane == kWarp - 1) warp_sums[warp] = sum;
  __syncthreads();
  int2 before = make_int2(0, 0);
  total = make_int2(0, 0);
  for (int i = 0; i < warps; ++i) {
    const int2 other = warp_sums[i];
    if (i < warp) before = make_int2(before.x + other.x, before.y + other.y);
    total = make_int2(total.x + other.x, total.y + other.y);
  }
  __syncthreads();
  return make_int2(before.x + sum.x - value.x, before.y + sum.y - value.y);
}

template <class Id>
__global__ void __launch_bounds__(kMostWarps* kWarp) routing_kernel(const __grid_constant__ RoutingArguments<Id> call) {
  extern __shared__ int32_t shared[];
  __shared__ int2 warp_sums[kMostWarps];
  const cg::cluster_group cluster = cg::this_cluster();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const auto block = static_cast<int>(blockIdx.x);
  const auto blocks = static_cast<int>(gridDim.x);
  int32_t* totals = shared;                  // (E,) of this block; other blocks read it
  int32_t* starts = shared + call.experts;   // (E,) first position of this block's rows
  int32_t* seen = starts + call.experts;     // (warps, E)
  int32_t* mine = seen + warp * call.experts;

  for (int i = static_cast<int>(threadIdx.x); i < warps * call.experts; i += static_cast<int>(blockDim.x)) seen[i] = 0;
  __syncthreads();
  const Segment segment = segment_of(block * warps + warp, int64_t{blocks} * warps, call.slots);
  for_slots(call, segment, lane, [&](int64_t, int32_t expert, uint32_t peers) {
    if (expert != kNoExpert && lane == __ffs(static_cast<int>(peers)) - 1) mine[expert] += __popc(peers);
    __syncwarp();
  });
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < call.experts; e += static_cast<int>(blockDim.x)) {
    int32_t sum = 0;
    for (int w = 0; w < warps; ++w) {
      const int32_t count = seen[w * call.experts + e];
      seen[w * call.experts + e] = sum;
      sum += count;
    }
    totals[e] = sum;
  }
  cluster.sync();

  int2 running = make_int2(0, 0);  // routed rows and padded rows of the experts before
  for (int first = 0; first < call.experts; first += static_cast<int>(blockDim.x)) {
    const int e = first + static_cast<int>(threadIdx.x);
    int32_t count = 0;
    int32_t before = 0;
    for (int other = 0; e < call.experts && other < blocks; ++other) {
      if (other == block) before = count;
      count += cluster.map_shared_rank(totals, static_cast<unsigned>(other))[e];
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
  cluster.barrier_arrive();
  __syncthreads();

  const int32_t routed_rows = running.x;
  for_slots(call, segment, lane, [&](int64_t slot, int32_t expert, uint32_t peers) {
    if (expert != kNoExpert) {
      const int32_t rank = __popc(peers & ((1u << lane) - 1u));
      place_slot(call, slot, starts[expert] + mine[expert] + rank, Store{});
    } else if (slot >= 0) {
      skip_slot(call, slot, routed_rows, Store{});
    }
    __syncwarp();
    if (expert != kNoExpert && lane == __ffs(static_cast<int>(peers)) - 1) mine[expert] += __popc(peers);
    __syncwarp();
  });
  const int64_t threads = int64_t{blocks} * blockDim.x;
  for (int64_t position = int64_t{routed_rows} + block * blockDim.x + threadIdx.x; position < call.slots; position += threads) {
    clear_tail(call, position, Store{});
  }
  cluster.barrier_wait();  // no block leaves while another may read its totals
}

struct Plan {
  int blocks;
  int warps;
  size_t shared_bytes;
};

Plan plan_for(int64_t slots, int32_t experts, int shared_limit) {
  const int64_t groups = std::max<int64_t>(1, ceil_div(slots, kWarp));
  const int64_t fitting = shared_limit / 4 / int64_t{experts} - 2;
  if (fitting < 1) {
    binding::value_error(binding::Text() << "num_experts must be at most " << shared_limit / 12
                                         << " on this device, got " << experts);
  }
  int blocks = 1;
  while (blocks < kMostBlocks && groups > int64_t{blocks} * kMostWarps) blocks *= 2;
  const int64_t wanted = std::clamp<int64_t>(ceil_div(groups, blocks), kFewestWarps, kMostWarps);
  const auto warps = static_cast<int>(std::min(wanted, fitting));
  return Plan{blocks, warps, static_cast<size_t>(warps + 2) * static_cast<size_t>(experts) * 4};
}

template <class Id>
void launch(const RoutingArguments<Id>& call, int device, cudaStream_t stream) {
  constexpr int kStaticShared = 1024;
  int limit = 0;
  check(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory of the device");
  const Plan plan = plan_for(call.slots, call.experts, limit - kStaticShared);
  check(cudaFuncSetAttribute(routing_kernel<Id>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(plan.shared_bytes)),
        "shared memory of the routing kernel");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(plan.blocks);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.blocks));
  config.blockDim = dim3(static_cast<unsigned>(plan.warps * kWarp));
  config.dynamicSmemBytes = plan.shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, routing_kernel<Id>, call), "launch of the routing kernel");
}

void route_experts(TensorView topk_ids, TensorView expert_offsets, TensorView problem_sizes1, TensorView problem_sizes2,
                   TensorView input_permutation, TensorView output_permutation, int64_t num_experts, int64_t n,
                   int64_t k, Optional<TensorView> blockscale_offsets, bool is_gated) {
  require_cuda(topk_ids);
  binding::require_dtype("topk_ids", topk_ids, {binding::kInt32, binding::kInt64});
  const int device = topk_ids.device().device_id;
  const auto run = [&](auto id) {
    const auto call = binding::routing_arguments<decltype(id)>(topk_ids, expert_offsets, problem_sizes1, problem_sizes2,
                                                               input_permutation, output_permutation, num_experts, n,
                                                               k, blockscale_offsets, is_gated);
    const tvm::ffi::CUDADeviceGuard guard(device);
    launch(call, device, stream_of(topk_ids));
  };
  if (topk_ids.dtype() == binding::kInt32) {
    run(int32_t{});
  } else {
    run(int64_t{});
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(route_experts, route_experts);

}  // namespace nvfp4_moe::device

// CUDA binding of the routing data: checks, the size of the cluster, launch.
#include <algorithm>

#include "device_binding.h"
#include "routing_kernel.cuh"

namespace nvfp4_moe::device {
namespace {

constexpr int kFewestWarps = 8;
constexpr int kMostGroupsAlone = 32;     // groups of 32 ids that one thread block takes without others
constexpr int kGroupsOfAWarp = 2;        // wanted, before a block gets more warps
constexpr int kGroupsOfABlock = 16;      // wanted, before there are more clusters
constexpr int kMostClusters = 4;         // each reads all ids
constexpr int kStaticShared = 1024;      // bytes that the kernel declares, and more

struct Plan {
  int clusters;
  int blocks;  // of a cluster
  int warps;
  int32_t length;  // slots of a warp
  bool staged;
  size_t shared_bytes;
};

Plan plan_for(int64_t slots, int32_t experts, int shared_limit, int most_blocks) {
  const int64_t groups = std::max<int64_t>(1, ceil_div(slots, kWarp));
  const int64_t fitting = shared_limit / 4 / int64_t{experts} - 3;
  if (fitting < 1) {
    binding::value_error(binding::Text() << "num_experts must be at most " << shared_limit / 16
                                         << " on this device, got " << experts);
  }
  const int blocks = groups <= kMostGroupsAlone ? 1 : most_blocks;
  int clusters = 1;
  if (blocks > 1 && ceil_div(slots, blocks) + kMostWarps * kWarp <= kMostOutside) {
    while (clusters < kMostClusters && groups > int64_t{clusters} * blocks * kGroupsOfABlock) clusters *= 2;
  }
  const int64_t wanted =
      std::clamp<int64_t>(ceil_div(groups, int64_t{clusters} * blocks * kGroupsOfAWarp), kFewestWarps, kMostWarps);
  const auto warps = static_cast<int>(std::min(wanted, fitting));
  const auto counts = static_cast<size_t>(warps + 3) * static_cast<size_t>(experts) * 4;
  const int64_t length = segment_length(int64_t{clusters} * blocks * warps, static_cast<int32_t>(slots));
  const int64_t slots_a_block = length * warps;
  const bool staged = slots_a_block <= Staged<int32_t>::kMostSlots && experts <= Staged<int32_t>::kMostExperts &&
                      counts + 4 * static_cast<size_t>(slots_a_block) <= static_cast<size_t>(shared_limit);
  return Plan{clusters, blocks, warps, static_cast<int32_t>(length), staged,
              counts + (staged ? 4 * static_cast<size_t>(slots_a_block) : 0)};
}

template <class Id>
struct Launch {
  Plan plan;
  void (*kernel)(RoutingArguments<Id>, int32_t);
  cudaLaunchAttribute attributes[2]{};  // to start early, and the cluster
  cudaLaunchConfig_t config{};

  Launch(const Plan& chosen, cudaStream_t stream) : plan(chosen), kernel(kernel_of(chosen)) {
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = static_cast<unsigned>(plan.blocks);
    attributes[1].val.clusterDim.y = 1;
    attributes[1].val.clusterDim.z = 1;
    config.gridDim = dim3(static_cast<unsigned>(plan.clusters * plan.blocks));
    config.blockDim = dim3(static_cast<unsigned>(plan.warps * kWarp));
    config.dynamicSmemBytes = plan.shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = plan.blocks > 1 ? 2 : 1;
    constexpr size_t kSharedWithoutAsking = 48 * 1024;  // of both kinds
    if (plan.shared_bytes + kStaticShared > kSharedWithoutAsking) {
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(plan.shared_bytes)),
            "shared memory of the routing kernel");
    }
    if (plan.blocks > kPortableBlocks) {
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "size of the cluster");
    }
  }
  Launch(const Launch&) = delete;  // `config` points into it

  static auto kernel_of(const Plan& plan) {
    if (plan.blocks == 1) return plan.staged ? routing_kernel<Id, false, Staged> : routing_kernel<Id, false, Unstaged>;
    return plan.staged ? routing_kernel<Id, true, Staged> : routing_kernel<Id, true, Unstaged>;
  }

  bool fits() {
    int clusters = 0;
    const cudaError_t error = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
    cudaGetLastError();  // an answer of "never" is no error of the caller's
    return error == cudaSuccess && clusters > 0;
  }
};

template <class Id>
void launch(const RoutingArguments<Id>& call, int device, cudaStream_t stream) {
  int limit = 0;
  check(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory of the device");
  limit -= kStaticShared;
  Launch<Id> large(plan_for(call.slots, call.experts, limit, kMostBlocks), stream);
  if (large.plan.blocks <= kPortableBlocks || large.fits()) {
    check(cudaLaunchKernelEx(&large.config, large.kernel, call, large.plan.length), "launch of the routing kernel");
    return;
  }
  Launch<Id> portable(plan_for(call.slots, call.experts, limit, kPortableBlocks), stream);
  check(cudaLaunchKernelEx(&portable.config, portable.kernel, call, portable.plan.length), "launch of the routing kernel");
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

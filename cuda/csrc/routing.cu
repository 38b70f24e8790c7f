// CUDA binding of the routing data: checks, the size of the cluster, launch.
#include <algorithm>

#include "device_binding.h"
#include "routing_kernel.cuh"

namespace nvfp4_moe::device {
namespace {

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
  constexpr size_t kSharedWithoutAsking = 48 * 1024;
  int limit = 0;
  check(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory of the device");
  const Plan plan = plan_for(call.slots, call.experts, limit - kStaticShared);
  const auto kernel = plan.blocks > 1 ? routing_kernel<Id, true> : routing_kernel<Id, false>;
  if (plan.shared_bytes > kSharedWithoutAsking) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(plan.shared_bytes)),
          "shared memory of the routing kernel");
  }
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(plan.blocks);
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.blocks));
  config.blockDim = dim3(static_cast<unsigned>(plan.warps * kWarp));
  config.dynamicSmemBytes = plan.shared_bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = plan.blocks > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, call), "launch of the routing kernel");
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

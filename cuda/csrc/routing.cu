// CUDA binding of the routing data: checks, the size of the cluster, launch.
#include <algorithm>

#include "device_binding.h"
#include "routing_kernel.cuh"

namespace nvfp4_moe::device {
namespace {

constexpr int kFewestWarps = 8;
constexpr int kWarpsBeforeBlocks = 16;  // warps of a thread block that are wanted before the cluster grows

struct Plan {
  int blocks;
  int warps;
  size_t shared_bytes;
};

Plan plan_for(int64_t slots, int32_t experts, int shared_limit, int most_blocks) {
  const int64_t groups = std::max<int64_t>(1, ceil_div(slots, kWarp));
  const int64_t fitting = shared_limit / 4 / int64_t{experts} - 2;
  if (fitting < 1) {
    binding::value_error(binding::Text() << "num_experts must be at most " << shared_limit / 12
                                         << " on this device, got " << experts);
  }
  int blocks = 1;
  while (blocks < most_blocks && groups > int64_t{blocks} * kWarpsBeforeBlocks) blocks *= 2;
  const int64_t wanted = std::clamp<int64_t>(ceil_div(groups, blocks), kFewestWarps, kMostWarps);
  const auto warps = static_cast<int>(std::min(wanted, fitting));
  return Plan{blocks, warps, static_cast<size_t>(warps + 2) * static_cast<size_t>(experts) * 4};
}

template <class Id>
struct Launch {
  Plan plan;
  void (*kernel)(RoutingArguments<Id>);
  cudaLaunchAttribute cluster{};
  cudaLaunchConfig_t config{};

  Launch(const Plan& chosen, cudaStream_t stream)
      : plan(chosen), kernel(chosen.blocks > 1 ? routing_kernel<Id, true> : routing_kernel<Id, false>) {
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(plan.blocks);
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    config.gridDim = dim3(static_cast<unsigned>(plan.blocks));
    config.blockDim = dim3(static_cast<unsigned>(plan.warps * kWarp));
    config.dynamicSmemBytes = plan.shared_bytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = plan.blocks > 1 ? 1 : 0;
    constexpr size_t kSharedWithoutAsking = 48 * 1024;
    if (plan.shared_bytes > kSharedWithoutAsking) {
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(plan.shared_bytes)),
            "shared memory of the routing kernel");
    }
    if (plan.blocks > kPortableBlocks) {
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "size of the cluster");
    }
  }
  Launch(const Launch&) = delete;  // `config` points into it

  bool fits() {
    int clusters = 0;
    const cudaError_t error = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
    cudaGetLastError();  // an answer of "never" is no error of the caller's
    return error == cudaSuccess && clusters > 0;
  }
};

template <class Id>
void launch(const RoutingArguments<Id>& call, int device, cudaStream_t stream) {
  constexpr int kStaticShared = 1024;
  int limit = 0;
  check(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory of the device");
  limit -= kStaticShared;
  Launch<Id> large(plan_for(call.slots, call.experts, limit, kMostBlocks), stream);
  if (large.plan.blocks <= kPortableBlocks || large.fits()) {
    check(cudaLaunchKernelEx(&large.config, large.kernel, call), "launch of the routing kernel");
    return;
  }
  Launch<Id> portable(plan_for(call.slots, call.experts, limit, kPortableBlocks), stream);
  check(cudaLaunchKernelEx(&portable.config, portable.kernel, call), "launch of the routing kernel");
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

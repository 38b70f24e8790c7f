// Host twin, routing data, moving rows and swizzling scales, behind the same checks as the launchers.
#include "host_binding.h"

namespace nvfp4_moe::host {
namespace {

template <class Id>
void check_ids(const RoutingArguments<Id>& call) {
  for (int32_t slot = 0; slot < call.slots; ++slot) {
    const Id id = call.topk_ids[slot];
    if (id < -1 || id >= static_cast<Id>(call.experts)) {
      binding::value_error(binding::Text() << "topk_ids[" << slot / call.topk << ", " << slot % call.topk << "] must be in [-1, "
                                << call.experts << "), got " << id);
    }
  }
}

void route_experts(TensorView topk_ids, TensorView expert_offsets, TensorView problem_sizes1, TensorView problem_sizes2,
                   TensorView input_permutation, TensorView output_permutation, int64_t num_experts, int64_t n,
                   int64_t k, Optional<TensorView> blockscale_offsets, bool is_gated, int64_t workers, int64_t threads,
                   int64_t seed, bool count_writers) {
  require_cpu(topk_ids);
  binding::require_dtype("topk_ids", topk_ids, {binding::kInt32, binding::kInt64});
  binding::require_range("workers", workers, 1, binding::kInt32Max);
  const auto run = [&](auto id) {
    const auto call = binding::routing_arguments<decltype(id)>(topk_ids, expert_offsets, problem_sizes1, problem_sizes2,
                                                               input_permutation, output_permutation, num_experts, n,
                                                               k, blockscale_offsets, is_gated);
    check_ids(call);
    with_writer(count_writers, [&](const auto& write) {
      route(call, workers, write, schedule_of(threads, seed));
    });
  };
  if (topk_ids.dtype() == binding::kInt32) {
    run(int32_t{});
  } else {
    run(int64_t{});
  }
}

void shuffle_rows(TensorView output, TensorView input, TensorView map, int64_t threads, int64_t seed,
                  bool count_writers) {
  require_cpu(input);
  const ShuffleArguments call = binding::shuffle_arguments(output, input, map);
  check_map("map", call.map, call.rows, call.source_rows);
  with_writer(count_writers, [&](const auto& write) { shuffle(call, write, schedule_of(threads, seed)); });
}

void unpermute_rows(TensorView output, TensorView input, TensorView map, TensorView weights, TensorView expert_offsets,
                    int64_t threads, int64_t seed, bool count_writers) {
  require_cpu(input);
  const UnpermuteArguments call = binding::unpermute_arguments(output, input, map, weights, expert_offsets);
  binding::require_range("routed rows", *call.routed_rows, 0, call.source_rows);
  check_map("output_permutation", call.map, call.tokens * call.topk, int64_t{*call.routed_rows} + 1);
  with_type(input, [&](auto type) {
    with_writer(count_writers, [&](const auto& write) {
      unpermute<decltype(type)>(call, write, schedule_of(threads, seed));
    });
  });
}

void swizzle_scales(TensorView output, TensorView linear, int64_t tile_rows, int64_t threads, int64_t seed,
                    bool count_writers) {
  require_cpu(linear);
  SwizzleArguments call = binding::swizzle_arguments(output, linear, tile_rows);
  call.linear_in = binding::data<uint8_t>(linear);
  call.out = binding::data<uint8_t>(output);
  with_writer(count_writers, [&](const auto& write) { swizzle(call, write, schedule_of(threads, seed)); });
}

void unswizzle_scales(TensorView output, TensorView swizzled, int64_t tile_rows, int64_t threads, int64_t seed,
                      bool count_writers) {
  require_cpu(swizzled);
  SwizzleArguments call = binding::swizzle_arguments(swizzled, output, tile_rows);
  call.swizzled_in = binding::data<uint8_t>(swizzled);
  call.out = binding::data<uint8_t>(output);
  with_writer(count_writers, [&](const auto& write) { unswizzle(call, write, schedule_of(threads, seed)); });
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(route_experts, route_experts);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(shuffle_rows, shuffle_rows);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(unpermute_rows, unpermute_rows);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(swizzle_scales, swizzle_scales);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(unswizzle_scales, unswizzle_scales);

}  // namespace nvfp4_moe::host

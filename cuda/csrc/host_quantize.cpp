// Host twin, quantization: the kernel bodies over all rows on CPU threads, behind the same checks as the launchers.
#include "host_binding.h"

namespace nvfp4_moe::host {
namespace {

// --- values that only the host can check ---------------------------------------------------------------------------

void check_offsets(const QuantizeArguments& call) {
  const int32_t* rows = call.expert_offsets;
  if (rows[0] != 0) binding::value_error(binding::Text() << "input_offset_by_experts[0] must be 0, got " << rows[0]);
  int64_t end = 0;
  for (int32_t e = 0; e < call.experts; ++e) {
    const int64_t start = call.blockscale_offsets[e];
    if (rows[e + 1] < rows[e] || rows[e + 1] > call.rows) {
      binding::value_error(binding::Text() << "input_offset_by_experts must ascend up to the " << call.rows << " rows, got "
                                << rows[e] << ", " << rows[e + 1] << " at entry " << e);
    }
    if (start < end || start % kTileRows != 0) {
      binding::value_error(binding::Text() << "output_scale_offset_by_experts[" << e << "] must be a multiple of 128 and at least "
                                << end << ", where the expert before it ends, got " << start);
    }
    end = start + round_up(rows[e + 1] - rows[e], kTileRows);
  }
  const int64_t last = call.blockscale_offsets[call.experts];
  if (last < end || last > call.scale_rows) {
    binding::value_error(binding::Text() << "output_scale_offset_by_experts[E] must lie between row " << end
                              << ", where the last expert ends, and the " << call.scale_rows
                              << " rows of output_scale, got " << last);
  }
}

// Only of experts that own rows: nothing is computed from the others.
void check_global_scale(const QuantizeArguments& call) {
  for (int32_t e = 0; e < call.experts; ++e) {
    const int32_t owned = call.masked_m != nullptr ? call.masked_m[e] : call.expert_offsets[e + 1] - call.expert_offsets[e];
    if (owned == 0) continue;
    const float scale = call.global_encode_scale[e];
    if (!(scale > 0.0f) || scale > std::numeric_limits<float>::max()) {
      binding::value_error(binding::Text() << "input_global_scale[" << e << "] must be finite and positive, got " << scale);
    }
  }
}

void check_masked_m(const QuantizeArguments& call) {
  for (int32_t e = 0; e < call.experts; ++e) {
    if (call.masked_m[e] < 0 || call.masked_m[e] > call.rows_per_expert) {
      binding::value_error(binding::Text() << "masked_m[" << e << "] must be in [0, " << call.rows_per_expert << "], got "
                                << call.masked_m[e]);
    }
  }
}

// --- the ops -------------------------------------------------------------------------------------------------------

struct Tables {
  Optional<TensorView> silu_values;
  Optional<TensorView> reciprocal_ulps;
};

void check_tables(const Tables& tables, bool fused) {
  const DLDevice cpu{kDLCPU, 0};
  if (fused && !tables.silu_values.has_value()) {
    binding::value_error(binding::Text() << "the fused form needs the table of SiLU values");
  }
  if (tables.silu_values.has_value()) {
    binding::require_dense("silu_values", tables.silu_values.value(), cpu, binding::kFloat32, {65536});
  }
  if (tables.reciprocal_ulps.has_value()) {
    binding::require_dense("reciprocal_ulps", tables.reciprocal_ulps.value(), cpu, binding::kInt8, {1 << 23});
  }
}

void run_quantize(const QuantizeArguments& call, const TensorView& input, const Tables& tables, bool fused,
                  bool zero_padding, const Schedule& schedule, bool count_writers) {
  const RowPadding row_padding = zero_padding ? RowPadding::kZero : RowPadding::kUnwritten;
  const float* silu = binding::data_or_null<float>(tables.silu_values);
  const auto run = [&](auto type, const auto& arithmetic, const auto& write) {
    using Type = decltype(type);
    if (fused) {
      quantize<Type, true>(call, 0, call.rows, row_padding, arithmetic, write, schedule);
    } else {
      quantize<Type, false>(call, 0, call.rows, row_padding, arithmetic, write, schedule);
    }
  };
  with_type(input, [&](auto type) {
    if (count_writers) {  // which bytes are written does not depend on the arithmetic
      run(type, IeeeArithmetic{silu}, CountWriters{});
    } else if (tables.reciprocal_ulps.has_value()) {
      run(type, TableArithmetic{silu, binding::data_or_null<int8_t>(tables.reciprocal_ulps)}, Store{});
    } else {
      run(type, IeeeArithmetic{silu}, Store{});
    }
  });
}

void quantize_experts(TensorView output, TensorView output_scale, TensorView input, TensorView input_global_scale,
                      TensorView expert_offsets, TensorView blockscale_offsets, Optional<TensorView> source_rows,
                      Optional<TensorView> silu_values, Optional<TensorView> reciprocal_ulps, bool fused,
                      bool zero_padding, int64_t threads, int64_t seed, bool count_writers) {
  require_cpu(input);
  const QuantizeArguments call = binding::ragged_arguments(output, output_scale, input, input_global_scale,
                                                           expert_offsets, blockscale_offsets, source_rows, fused);
  check_offsets(call);
  check_global_scale(call);
  if (call.source_rows != nullptr) {
    check_map("input_map", call.source_rows, call.expert_offsets[call.experts], call.num_source_rows);
  }
  const Tables tables{silu_values, reciprocal_ulps};
  check_tables(tables, fused);
  run_quantize(call, input, tables, fused, zero_padding, schedule_of(threads, seed), count_writers);
}

void quantize_masked(TensorView output, TensorView output_scale, TensorView input, TensorView input_global_scale,
                     TensorView masked_m, Optional<TensorView> silu_values, Optional<TensorView> reciprocal_ulps,
                     bool fused, bool zero_padding, int64_t threads, int64_t seed, bool count_writers) {
  require_cpu(input);
  const QuantizeArguments call =
      binding::masked_arguments(output, output_scale, input, input_global_scale, masked_m, fused);
  check_masked_m(call);
  check_global_scale(call);
  const Tables tables{silu_values, reciprocal_ulps};
  check_tables(tables, fused);
  run_quantize(call, input, tables, fused, zero_padding, schedule_of(threads, seed), count_writers);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(quantize_experts, quantize_experts);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(quantize_masked, quantize_masked);

}  // namespace nvfp4_moe::host

// Checks of arguments at the door, shared by the host twin and the CUDA launchers: dtypes, shapes, strides, sizes.
// A wrong dtype or device raises TypeError in Python, everything else ValueError; the text says what was given and what
// is legal. Values (offsets, ids, indices) are checked by the host twin only: a launcher cannot see them.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <initializer_list>
#include <limits>
#include <string>

#include "nvfp4_moe/quantize.h"
#include "nvfp4_moe/routing.h"
#include "nvfp4_moe/rows.h"
#include "nvfp4_moe/swizzle.h"

namespace nvfp4_moe::binding {

using tvm::ffi::Optional;
using tvm::ffi::TensorView;

constexpr int64_t kAny = -1;
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kLongestStep = 1 << 16;  // a loop's step past the last row, slot or expert still fits int32
constexpr int64_t kLargestK = int64_t{1} << 27;  // so that every grid dimension and column index fits

constexpr DLDataType kUint8{kDLUInt, 8, 1};
constexpr DLDataType kInt8{kDLInt, 8, 1};
constexpr DLDataType kInt32{kDLInt, 32, 1};
constexpr DLDataType kInt64{kDLInt, 64, 1};
constexpr DLDataType kFloat16{kDLFloat, 16, 1};
constexpr DLDataType kBfloat16{kDLBfloat, 16, 1};
constexpr DLDataType kFloat32{kDLFloat, 32, 1};

// A message put together from parts. Kept out of line: there are many checks, and none is on a hot path.
class Text {
 public:
  [[gnu::noinline]] Text& operator<<(const std::string& part) {
    parts_ += part;
    return *this;
  }
  [[gnu::noinline]] Text& operator<<(const char* part) {
    parts_ += part;
    return *this;
  }
  [[gnu::noinline]] Text& operator<<(int64_t number) {
    parts_ += std::to_string(number);
    return *this;
  }
  Text& operator<<(int32_t number) { return *this << static_cast<int64_t>(number); }
  [[gnu::noinline]] Text& operator<<(float number) {
    parts_ += std::to_string(number);
    return *this;
  }
  const std::string& whole() const { return parts_; }

 private:
  std::string parts_;
};

[[noreturn, gnu::noinline]] inline void value_error(const Text& text) {
  throw tvm::ffi::Error("ValueError", text.whole(), "");
}
[[noreturn, gnu::noinline]] inline void type_error(const Text& text) {
  throw tvm::ffi::Error("TypeError", text.whole(), "");
}

[[gnu::noinline]] inline std::string text(const TensorView& tensor) {
  Text out;
  out << std::string(tvm::ffi::DLDataTypeToString(tensor.dtype())) << " (";
  for (int32_t i = 0; i < tensor.ndim(); ++i) out << (i ? ", " : "") << tensor.size(i);
  out << ")";
  return out.whole();
}

[[gnu::noinline]] inline void require_dtype(const char* name, const TensorView& tensor, std::initializer_list<DLDataType> legal) {
  std::string names;
  for (const DLDataType& dtype : legal) {
    if (tensor.dtype() == dtype) return;
    names += (names.empty() ? "" : " or ") + std::string(tvm::ffi::DLDataTypeToString(dtype));
  }
  type_error(Text() << name << " must be " << names << ", got " << text(tensor));
}

// `shape` has kAny where every size is legal.
[[gnu::noinline]] inline void require_shape(const char* name, const TensorView& tensor, std::initializer_list<int64_t> shape) {
  bool fits = tensor.ndim() == static_cast<int32_t>(shape.size());
  Text wanted;
  int32_t axis = 0;
  for (const int64_t size : shape) {
    if (fits && size != kAny && tensor.size(axis) != size) fits = false;
    wanted << (axis ? ", " : "");
    if (size == kAny) {
      wanted << "any";
    } else {
      wanted << size;
    }
    ++axis;
  }
  if (!fits) value_error(Text() << name << " must have shape (" << wanted.whole() << "), got " << text(tensor));
}

[[gnu::noinline]] inline void require_contiguous(const char* name, const TensorView& tensor) {
  if (!tensor.IsContiguous()) value_error(Text() << name << " must be contiguous, got strides of a view");
}

[[gnu::noinline]] inline void require_device(const char* name, const TensorView& tensor, DLDevice device) {
  if (tensor.device().device_type != device.device_type || tensor.device().device_id != device.device_id) {
    type_error(Text() << name << " must be on the device of the other tensors (type " << device.device_type
                             << ", index " << device.device_id << "), got type " << tensor.device().device_type
                             << ", index " << tensor.device().device_id);
  }
}

[[gnu::noinline]] inline void require_aligned(const char* name, const TensorView& tensor, int64_t alignment) {
  if (tensor.numel() > 0 && reinterpret_cast<intptr_t>(tensor.data_ptr()) % alignment != 0) {
    value_error(Text() << name << " must start at a multiple of " << alignment << " bytes");
  }
}

[[gnu::noinline]] inline void require_range(const char* name, int64_t value, int64_t first, int64_t last) {
  if (value < first || value > last) {
    value_error(Text() << name << " must be in [" << first << ", " << last << "], got " << value);
  }
}

// A dense tensor of one dtype and shape on the device of the call.
[[gnu::noinline]] inline void require_dense(const char* name, const TensorView& tensor, DLDevice device, DLDataType dtype,
                          std::initializer_list<int64_t> shape) {
  require_dtype(name, tensor, {dtype});
  require_device(name, tensor, device);
  require_shape(name, tensor, shape);
  require_contiguous(name, tensor);
}

template <class T>
T* data(const TensorView& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

template <class T>
T* data_or_null(const Optional<TensorView>& tensor) {
  return tensor.has_value() ? static_cast<T*>(tensor.value().data_ptr()) : nullptr;
}

// The distance of neighbouring rows in elements. Rows may lie apart (a view of columns), their elements may not.
inline int64_t row_stride(const char* name, const TensorView& tensor) {
  const int32_t row = tensor.ndim() - 2;
  const int64_t columns = tensor.size(row + 1);
  const bool dense_rows = columns <= 1 || tensor.stride(row + 1) == 1;
  if (!dense_rows) value_error(Text() << name << " must have rows of neighbouring elements, got strides of a view");
  if (tensor.size(row) <= 1) return columns;
  if (tensor.stride(row) < columns) value_error(Text() << name << " must have rows that do not overlap");
  return tensor.stride(row);
}

inline int32_t checked_k(int64_t columns, bool fused) {
  const int64_t k = fused ? columns / 2 : columns;
  if ((fused && columns % 2 != 0) || k < kBlockSize || k % kBlockSize != 0 || k > kLargestK) {
    value_error(Text() << "K must be a multiple of 16 in [16, 2^27]"
                              << (fused ? " (input is gate and up, 2K columns)" : "") << ", got " << columns
                              << " input columns");
  }
  return static_cast<int32_t>(k);
}

// The ragged form. `output_scale` arrives as bytes, (scale rows, 4 * ceil(K / 64)).
[[gnu::noinline]] inline QuantizeArguments ragged_arguments(const TensorView& output, const TensorView& output_scale,
                                          const TensorView& input, const TensorView& input_global_scale,
                                          const TensorView& expert_offsets, const TensorView& blockscale_offsets,
                                          const Optional<TensorView>& source_rows, bool fused) {
  const DLDevice device = input.device();
  QuantizeArguments call{};
  require_dtype("input", input, {kBfloat16, kFloat16});
  require_shape("input", input, {kAny, kAny});
  call.k = checked_k(input.size(1), fused);
  call.num_source_rows = input.size(0);
  call.rows = source_rows.has_value() ? source_rows.value().size(0) : input.size(0);
  require_range("the number of routed rows", call.rows, 0, kInt32Max - kLongestStep);
  require_dtype("input_global_scale", input_global_scale, {kFloat32});
  require_shape("input_global_scale", input_global_scale, {kAny});
  require_range("the number of experts", input_global_scale.size(0), 1, kInt32Max - kLongestStep);
  call.experts = static_cast<int32_t>(input_global_scale.size(0));
  require_dense("input_global_scale", input_global_scale, device, kFloat32, {call.experts});
  require_dense("input_offset_by_experts", expert_offsets, device, kInt32, {int64_t{call.experts} + 1});
  require_dense("output_scale_offset_by_experts", blockscale_offsets, device, kInt32, {int64_t{call.experts} + 1});
  require_dense("output", output, device, kUint8, {call.rows, call.k / 2});
  require_dense("output_scale (as bytes)", output_scale, device, kUint8, {kAny, scale_words(call.k) * kTileBlocks});
  if (source_rows.has_value()) require_dense("input_map", source_rows.value(), device, kInt32, {call.rows});
  call.input = data<uint16_t>(input);
  const int64_t stride = row_stride("input", input);
  require_range("the distance of input rows", stride, 0, kInt32Max);
  call.input_stride = static_cast<int32_t>(stride);
  call.global_encode_scale = data<float>(input_global_scale);
  call.expert_offsets = data<int32_t>(expert_offsets);
  call.blockscale_offsets = data<int32_t>(blockscale_offsets);
  call.source_rows = data_or_null<int32_t>(source_rows);
  call.packed = data<uint8_t>(output);
  call.block_scale = data<uint8_t>(output_scale);
  call.scale_rows = output_scale.size(0);
  return call;
}

// The masked form: input (E, M, K), output (E, M, K/2), output_scale as bytes (E, round_up(M, 128), 4 * ceil(K / 64)).
[[gnu::noinline]] inline QuantizeArguments masked_arguments(const TensorView& output, const TensorView& output_scale,
                                          const TensorView& input, const TensorView& input_global_scale,
                                          const TensorView& masked_m, bool fused) {
  const DLDevice device = input.device();
  QuantizeArguments call{};
  require_dtype("input", input, {kBfloat16, kFloat16});
  require_shape("input", input, {kAny, kAny, kAny});
  require_contiguous("input", input);
  call.k = checked_k(input.size(2), fused);
  require_range("the number of experts", input.size(0), 1, kInt32Max - kLongestStep);
  call.experts = static_cast<int32_t>(input.size(0));
  call.rows_per_expert = input.size(1);
  require_range("rows of an expert", call.rows_per_expert, 0, kInt32Max);
  require_range("the number of rows", call.experts * call.rows_per_expert, 0, kInt32Max - kLongestStep);
  call.rows = call.experts * call.rows_per_expert;
  call.num_source_rows = call.rows;
  const int64_t padded = round_up(call.rows_per_expert, kTileRows);
  require_dense("input_global_scale", input_global_scale, device, kFloat32, {call.experts});
  require_dense("masked_m", masked_m, device, kInt32, {call.experts});
  require_dense("output", output, device, kUint8, {call.experts, call.rows_per_expert, call.k / 2});
  require_dense("output_scale (as bytes)", output_scale, device, kUint8,
                {call.experts, padded, scale_words(call.k) * kTileBlocks});
  call.input = data<uint16_t>(input);
  call.input_stride = static_cast<int32_t>(input.size(2));
  call.global_encode_scale = data<float>(input_global_scale);
  call.masked_m = data<int32_t>(masked_m);
  call.packed = data<uint8_t>(output);
  call.block_scale = data<uint8_t>(output_scale);
  call.scale_rows = call.experts * padded;
  return call;
}

template <class Id>
RoutingArguments<Id> routing_arguments(const TensorView& topk_ids, const TensorView& expert_offsets,
                                       const TensorView& problem_sizes1, const TensorView& problem_sizes2,
                                       const TensorView& input_permutation, const TensorView& output_permutation,
                                       int64_t num_experts, int64_t n, int64_t k,
                                       const Optional<TensorView>& blockscale_offsets, bool is_gated) {
  const DLDevice device = topk_ids.device();
  require_shape("topk_ids", topk_ids, {kAny, kAny});
  require_contiguous("topk_ids", topk_ids);
  require_range("topk", topk_ids.size(1), 1, kInt32Max);
  require_range("num_experts", num_experts, 1, kInt32Max / kTileRows / 2);
  require_range("n", n, 1, kInt32Max / 2);
  require_range("k", k, 1, kInt32Max);
  // The last padded offset, at most slots + 127 * E, must fit int32, and so must a loop's step past the last slot.
  require_range("tokens times topk", topk_ids.numel(), 0, kInt32Max - kLongestStep - (kTileRows - 1) * num_experts);
  require_dense("expert_offsets", expert_offsets, device, kInt32, {num_experts + 1});
  require_dense("problem_sizes1", problem_sizes1, device, kInt32, {num_experts, 3});
  require_dense("problem_sizes2", problem_sizes2, device, kInt32, {num_experts, 3});
  require_dense("input_permutation", input_permutation, device, kInt32, {topk_ids.numel()});
  require_dense("output_permutation", output_permutation, device, kInt32, {topk_ids.numel()});
  if (blockscale_offsets.has_value()) {
    require_dense("blockscale_offsets", blockscale_offsets.value(), device, kInt32, {num_experts + 1});
  }
  RoutingArguments<Id> call{};
  call.topk_ids = data<Id>(topk_ids);
  call.expert_offsets = data<int32_t>(expert_offsets);
  call.blockscale_offsets = data_or_null<int32_t>(blockscale_offsets);
  call.problem_sizes1 = data<int32_t>(problem_sizes1);
  call.problem_sizes2 = data<int32_t>(problem_sizes2);
  call.input_permutation = data<int32_t>(input_permutation);
  call.output_permutation = data<int32_t>(output_permutation);
  call.slots = static_cast<int32_t>(topk_ids.numel());
  call.topk = static_cast<int32_t>(topk_ids.size(1));
  call.experts = static_cast<int32_t>(num_experts);
  call.n = static_cast<int32_t>(n);
  call.k = static_cast<int32_t>(k);
  call.columns1 = static_cast<int32_t>(is_gated ? 2 * n : n);
  return call;
}

inline ShuffleArguments shuffle_arguments(const TensorView& output, const TensorView& input, const TensorView& map) {
  const DLDevice device = input.device();
  require_shape("input", input, {kAny, kAny});
  require_dtype("input", input, {kUint8, kFloat16, kBfloat16, kFloat32});
  require_shape("map", map, {kAny});
  require_dense("map", map, device, kInt32, {map.size(0)});
  require_dense("output", output, device, input.dtype(), {map.size(0), input.size(1)});
  const int64_t element = input.dtype().bits / 8;
  ShuffleArguments call{};
  call.input = data<uint8_t>(input);
  call.map = data<int32_t>(map);
  call.output = data<uint8_t>(output);
  call.rows = map.size(0);
  call.source_rows = input.size(0);
  call.input_stride = row_stride("input", input) * element;
  call.row_bytes = input.size(1) * element;
  return call;
}

inline UnpermuteArguments unpermute_arguments(const TensorView& output, const TensorView& input, const TensorView& map,
                                              const TensorView& weights, const TensorView& expert_offsets) {
  const DLDevice device = input.device();
  require_dtype("input", input, {kBfloat16, kFloat16});
  require_shape("input", input, {kAny, kAny});
  require_shape("topk_weights", weights, {kAny, kAny});
  require_shape("expert_offsets", expert_offsets, {kAny});
  require_range("entries of expert_offsets", expert_offsets.size(0), 1, kInt32Max);
  require_range("topk", weights.size(1), 1, kInt32Max);
  require_contiguous("input", input);
  require_dense("topk_weights", weights, device, kFloat32, {weights.size(0), weights.size(1)});
  require_dense("output_permutation", map, device, kInt32, {weights.numel()});
  require_dense("expert_offsets", expert_offsets, device, kInt32, {expert_offsets.size(0)});
  require_dense("output", output, device, input.dtype(), {weights.size(0), input.size(1)});
  UnpermuteArguments call{};
  call.input = data<uint16_t>(input);
  call.map = data<int32_t>(map);
  call.weights = data<float>(weights);
  call.routed_rows = data<int32_t>(expert_offsets) + expert_offsets.size(0) - 1;
  call.output = data<uint16_t>(output);
  call.tokens = weights.size(0);
  call.source_rows = input.size(0);
  call.k = input.size(1);
  call.topk = static_cast<int32_t>(weights.size(1));
  return call;
}

inline SwizzleArguments swizzle_arguments(const TensorView& swizzled, const TensorView& linear, int64_t tile_rows) {
  if (tile_rows != kTileRows && tile_rows != kSmallTileRows) {
    value_error(Text() << "tile rows must be 128 or 8, got " << tile_rows);
  }
  require_shape("linear", linear, {kAny, kAny, kAny});
  require_range("scale blocks of a row", linear.size(2), 1, kLargestK);
  require_dense("linear", linear, linear.device(), kUint8, {linear.size(0), linear.size(1), linear.size(2)});
  require_dense("swizzled", swizzled, linear.device(), kUint8,
                {linear.size(0), round_up(linear.size(1), tile_rows), round_up(linear.size(2), kTileBlocks)});
  SwizzleArguments call{};
  call.experts = linear.size(0);
  call.rows = linear.size(1);
  call.blocks = linear.size(2);
  call.tile_rows = static_cast<int32_t>(tile_rows);
  return call;
}

}  // namespace nvfp4_moe::binding

// The quantization kernel: `quantize_row_block` of nvfp4_moe/quantize.h with faster ways to load, round and store.
//
// A row is the work of whole warps: blockDim.x threads along the row, blockDim.y groups of neighbouring rows. One thread
// owns one 16-element block at a time. It asks for the next one before it works on the present one, and for the first
// one before its warp looks for the expert, so that the search hides behind the loads; the next search comes only when
// the rows leave the expert. Thread blocks behind the row blocks zero the row padding, one expert each.
//
// Codes without a hardware convert: for v = |x * m| below 7,
//     2^23 + code = min(2v + 2^23, v + 2^23 + 2, v/2 + 2^23 + 4)
// as in `encode_e2m1`, three additions that round by themselves and one three-way integer minimum, since positive floats
// order as integers. Blocks outside its domain (a NaN, an infinity, a saturated or subnormal scale) take the general
// body instead; they are rare, and their bytes are the same.
#pragma once

#include <type_traits>

#include "device.cuh"
#include "nvfp4_moe/quantize.h"

namespace nvfp4_moe::device {

constexpr int kMostThreads = 256;
constexpr float kFastLimit = 7.0f;  // v/2 + 4 rounds to 7 below it

struct Registers {
  uint32_t pair[kBlockSize / 2];
};

__device__ __forceinline__ Registers load_registers(const uint16_t* from) {
  const uint4 low = load_once(from);
  const uint4 high = load_once(from + kBlockSize / 2);
  return Registers{{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

// silu(gate) * up, rounded to the input type.
template <class Type, class Arithmetic>
__device__ __forceinline__ Registers gated(const Registers& gate, const Registers& up, const Arithmetic& arithmetic) {
  Registers product;
#pragma unroll
  for (int i = 0; i < kBlockSize / 2; ++i) {
    const float low = arithmetic.template silu<Type>(static_cast<uint16_t>(gate.pair[i] & 0xFFFF));
    const float high = arithmetic.template silu<Type>(static_cast<uint16_t>(gate.pair[i] >> 16));
    product.pair[i] = round_pair<Type>(low * low_half<Type>(up.pair[i]), high * high_half<Type>(up.pair[i]));
  }
  return product;
}

template <class Type, bool kPropagateNan>
__device__ __forceinline__ float amax_of(const Registers& x) {
  uint32_t largest = larger_magnitudes<Type, kPropagateNan>(x.pair[0], x.pair[1]);
#pragma unroll
  for (int i = 2; i < kBlockSize / 2; ++i) largest = larger_magnitudes<Type, kPropagateNan>(largest, x.pair[i]);
  largest = larger_magnitudes<Type, kPropagateNan>(largest, largest >> 16) & 0x7FFFu;
  return Type::to_float(static_cast<uint16_t>(largest));
}

// As `decode_e4m3` for bytes that are no NaN.
__device__ __forceinline__ float decode_number(uint8_t byte) {
  return __uint_as_float(static_cast<uint32_t>(byte) << 20) * 0x1p120f;
}

#if !NVFP4_HARDWARE_E2M1
// 2^23 + code for v = |x * multiplier| < 7.
__device__ __forceinline__ uint32_t biased_code(float x, float multiplier) {
  constexpr float kInteger = 0x1p23f;
  const float v = fabsf(x) * multiplier;
  const int32_t half_steps = __float_as_int(__fmaf_rn(v, 2.0f, kInteger));
  const int32_t whole_steps = __float_as_int(v + (kInteger + 2.0f));
  const int32_t double_steps = __float_as_int(__fmaf_rn(v, 0.5f, kInteger + 4.0f));
  return static_cast<uint32_t>(__vimin3_s32(half_steps, whole_steps, double_steps));
}

// Signs of eight elements (four pairs) at bit 3 of their nibbles. A selector with bit 3 set copies a byte's sign bit
// into the whole byte.
__device__ __forceinline__ uint32_t nibble_signs(const uint32_t* pair) {
  const uint32_t low = permute<0x7351>(pair[0], pair[1]);   // sign bytes of elements 0, 2, 1, 3
  const uint32_t high = permute<0x7351>(pair[2], pair[3]);  // 4, 6, 5, 7
  const uint32_t even = permute<0xDC98>(low, high);
  const uint32_t odd = permute<0xFEBA>(low, high);
  return (even & 0x08080808u) | (odd & 0x80808080u);
}

template <class Type>
__device__ __forceinline__ uint32_t fast_word(const uint32_t* pair, float multiplier) {
  // Horner in steps of a nibble; the bias 0x4B000000 of each code adds up to a constant modulo 2^32.
  constexpr uint32_t kBiases = 0x4B000000u + (0x4B000000u << 4);
  uint32_t word = 0;
#pragma unroll
  for (int i = 3; i >= 0; --i) {
    word = word * 16 + biased_code(high_half<Type>(pair[i]), multiplier);
    word = word * 16 + biased_code(low_half<Type>(pair[i]), multiplier);
  }
  return (word - kBiases) | nibble_signs(pair);
}
#endif

struct Result {
  uint2 packed;
  uint8_t scale;
};

// The general body, out of line: it reads the block again.
template <class Type, bool kFused, class Arithmetic>
__device__ __noinline__ Result general_block(const QuantizeArguments& call, int32_t row, int32_t block, float g,
                                             float global_reciprocal, Arithmetic arithmetic) {
  uint16_t x[kBlockSize];
  nvfp4_moe::load_block<Type, kFused>(call, source_row(call, row), block, arithmetic, x);
  const QuantizedBlock result = quantize_block<Type>(x, g, global_reciprocal, arithmetic);
  return Result{make_uint2(static_cast<uint32_t>(result.packed), static_cast<uint32_t>(result.packed >> 32)),
                result.scale};
}

// The roof: every load and store of the kernel, and nothing in between.
struct NoArithmetic {
  __device__ __forceinline__ float reciprocal(float x) const { return x; }
};

template <bool kFused>
__device__ __forceinline__ Result unquantized(const Registers& x, const Registers& up) {
  uint2 mixed = make_uint2(0, 0);
#pragma unroll
  for (int i = 0; i < kBlockSize / 4; ++i) {
    mixed.x ^= x.pair[i] ^ (kFused ? up.pair[i] : 0);
    mixed.y ^= x.pair[i + kBlockSize / 4] ^ (kFused ? up.pair[i + kBlockSize / 4] : 0);
  }
  return Result{mixed, static_cast<uint8_t>(mixed.x)};
}

template <class Type, bool kFused, class Arithmetic>
__device__ __forceinline__ Result quantize_registers(const QuantizeArguments& call, const Registers& x, int32_t row,
                                                     int32_t block, float g, float global_reciprocal,
                                                     const Arithmetic& arithmetic) {
#if NVFP4_HARDWARE_E2M1
  const BlockScale scale = block_scale_of(amax_of<Type, false>(x), g, global_reciprocal, arithmetic);
  float low[8], high[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    low[2 * i] = low_half<Type>(x.pair[i]) * scale.multiplier;
    low[2 * i + 1] = high_half<Type>(x.pair[i]) * scale.multiplier;
    high[2 * i] = low_half<Type>(x.pair[4 + i]) * scale.multiplier;
    high[2 * i + 1] = high_half<Type>(x.pair[4 + i]) * scale.multiplier;
  }
  return Result{make_uint2(encode_e2m1_x8(low), encode_e2m1_x8(high)), scale.byte};
#else
  const float amax = amax_of<Type, true>(x);
  const uint8_t byte = encode_e4m3(g * (amax * __uint_as_float(kReciprocalOf6)));
  const float scale = decode_number(byte);
  const float multiplier = scale == 0.0f ? 0.0f : arithmetic.reciprocal(scale * global_reciprocal);
  // False for a NaN. A byte 0x7F comes from a NaN amax, or from a product 0 * Inf that makes this one NaN as well.
  const bool fast = amax * multiplier < kFastLimit && multiplier >= 0.0f;
  if (!fast) return general_block<Type, kFused>(call, row, block, g, global_reciprocal, arithmetic);
  return Result{make_uint2(fast_word<Type>(x.pair, multiplier), fast_word<Type>(x.pair + 4, multiplier)), byte};
#endif
}

enum class Form { kRagged, kGathered, kMasked };

template <Form kForm>
__device__ __forceinline__ Owner find_owner(const QuantizeArguments& call, int32_t row) {
  if constexpr (kForm == Form::kMasked) {
    return masked_owner(call, static_cast<int32_t>(blockIdx.y));
  } else {
    return ragged_owner(call, count_not_above(call.expert_offsets, call.experts + 1, row) - 1);
  }
}

// The work of a thread: the blocks threadIdx.x, threadIdx.x + blockDim.x, ... of neighbouring rows.
struct Cursor {
  int32_t row;
  int32_t block;

  __device__ __forceinline__ Cursor next(int32_t padded_blocks) const {
    const int32_t further = block + static_cast<int32_t>(blockDim.x);
    const bool same_row = further - static_cast<int32_t>(threadIdx.x % 32) < padded_blocks;  // alike in a warp
    return same_row ? Cursor{row, further} : Cursor{row + 1, static_cast<int32_t>(threadIdx.x)};
  }
};

template <bool kFused>
struct Loaded {
  Registers x{};
  Registers up{};
};

template <Form kForm, bool kFused>
__device__ __forceinline__ Loaded<kFused> load_block(const QuantizeArguments& call, Cursor at, int32_t blocks) {
  Loaded<kFused> loaded;
  if (at.block >= blocks) return loaded;
  const int64_t source = kForm == Form::kGathered ? source_row(call, at.row) : at.row;
  if (kForm == Form::kGathered && source < 0) return loaded;
  const uint16_t* from = call.input + source * int64_t{call.input_stride} + at.block * kBlockSize;
  loaded.x = load_registers(from);
  if constexpr (kFused) loaded.up = load_registers(from + call.k);
  return loaded;
}

// What a thread keeps of the expert whose rows it works on.
struct Expert {
  Owner owner;
  float global_encode_scale;
  float global_reciprocal;
  uint8_t* scales;  // the expert's region
};

template <Form kForm, class Arithmetic>
__device__ __forceinline__ Expert find_expert(const QuantizeArguments& call, int32_t row, int32_t words,
                                              const Arithmetic& arithmetic) {
  const Owner owner = find_owner<kForm>(call, row);
  const float g = owner.expert < 0 ? 1.0f : call.global_encode_scale[owner.expert];
  return Expert{owner, g, arithmetic.reciprocal(g), call.block_scale + region_byte(owner, words)};
}

template <class Type, bool kFused, class Arithmetic>
__device__ __forceinline__ Result quantize_loaded(const QuantizeArguments& call, const Loaded<kFused>& loaded, Cursor at,
                                                  const Expert& expert, const Arithmetic& arithmetic) {
  if constexpr (std::is_same_v<Arithmetic, NoArithmetic>) {
    return unquantized<kFused>(loaded.x, loaded.up);
  } else {
    Registers x = loaded.x;
    if constexpr (kFused) x = gated<Type>(x, loaded.up, arithmetic);
    return quantize_registers<Type, kFused>(call, x, at.row, at.block, expert.global_encode_scale,
                                            expert.global_reciprocal, arithmetic);
  }
}

template <class Type, bool kFused, Form kForm, class Arithmetic>
__device__ __forceinline__ void quantize_rows(const QuantizeArguments& call, const Arithmetic& arithmetic,
                                              int32_t rows_each) {
  const int32_t blocks = call.k / kBlockSize;
  const int32_t words = (call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize * kTileBlocks);
  const auto first = static_cast<int32_t>((blockIdx.x * blockDim.y + threadIdx.y) * rows_each);
  const auto rows = static_cast<int32_t>(kForm == Form::kMasked ? call.rows_per_expert : call.rows);
  if (first >= rows) return;
  const int32_t offset = kForm == Form::kMasked ? static_cast<int32_t>(blockIdx.y) * rows : 0;
  const int32_t end = offset + min(first + rows_each, rows);
  Cursor at{offset + first, static_cast<int32_t>(threadIdx.x)};
  Loaded<kFused> now = load_block<kForm, kFused>(call, at, blocks);
  Expert expert{nobody(at.row), 0.0f, 0.0f, nullptr};
#pragma unroll 1
  for (;;) {
    const Cursor next = at.next(words * kTileBlocks);
    Loaded<kFused> later;
    if (next.row < end) later = load_block<kForm, kFused>(call, next, blocks);
    if (at.row >= expert.owner.next_row) expert = find_expert<kForm>(call, at.row, words, arithmetic);
    if (at.row < expert.owner.end_row && at.block < words * kTileBlocks) {
      uint8_t scale = 0;
      if (at.block < blocks) {
        const Result result = quantize_loaded<Type>(call, now, at, expert, arithmetic);
        store_once(call.packed + int64_t{at.row} * (call.k / 2) + at.block * (kBlockSize / 2), result.packed);
        scale = result.scale;
      }
      const auto row_in_expert = static_cast<uint32_t>(at.row - expert.owner.first_row);
      const auto block = static_cast<uint32_t>(at.block);
      expert.scales[row_byte_128x4(row_in_expert, static_cast<uint32_t>(words)) + block_byte_128x4(block)] = scale;
    }
    if (next.row >= end) return;
    at = next;
    now = later;
  }
}

__device__ __forceinline__ void zero_padding_of_expert(const QuantizeArguments& call, int32_t expert) {
  const PaddingPlace place = padding_place(call, expert);
  if (place.owned == 0) return;
  const auto threads = static_cast<int32_t>(blockDim.x * blockDim.y);
  const int32_t pieces = (call.k + 63) / 64 * kTileLanes;
#pragma unroll 1
  for (auto piece = static_cast<int32_t>(threadIdx.y * blockDim.x + threadIdx.x); piece < pieces; piece += threads) {
    zero_padding_piece(call, place, piece / kTileLanes, piece % kTileLanes, Store{});
  }
}

// Thread blocks (x, 0) of the ragged form: `row_blocks` of rows, then one for the row padding of each expert. Of the
// masked form: (x, expert), the last x for the row padding.
template <class Type, bool kFused, Form kForm, class Arithmetic>
__global__ void __launch_bounds__(kMostThreads, kFused ? 4 : 5)  // 64 or 48 registers
    quantize_kernel(const __grid_constant__ QuantizeArguments call, Arithmetic arithmetic, int32_t row_blocks,
                    int32_t rows_each) {
  const int32_t behind = static_cast<int32_t>(blockIdx.x) - row_blocks;
  if (behind >= 0) {
    zero_padding_of_expert(call, kForm == Form::kMasked ? static_cast<int32_t>(blockIdx.y) : behind);
  } else {
    quantize_rows<Type, kFused, kForm>(call, arithmetic, rows_each);
  }
}

}  // namespace nvfp4_moe::device

// The quantization kernel: `quantize_row_block` of nvfp4_moe/quantize.h with faster ways to load, round and store.
//
// A thread owns one 16-element block of each of many rows; all lanes of a warp work on the same row. Rows come through a
// ring in shared memory that the warp keeps filled a few rows ahead (`Ring`), so that neither the arithmetic nor the
// search for the expert waits for memory. Thread blocks behind those of the rows zero the row padding, one expert each.
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
constexpr int kResidentBlocks = 4;  // a multiprocessor; leaves 64 registers a thread
constexpr float kFastLimit = 7.0f;  // v/2 + 4 rounds to 7 below it

struct Registers {
  uint32_t pair[kBlockSize / 2];
};

__device__ __forceinline__ Registers load_registers(const uint8_t* shared) {
  const uint4 low = *reinterpret_cast<const uint4*>(shared);
  const uint4 high = *reinterpret_cast<const uint4*>(shared + 16);
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
  uint32_t largest[kBlockSize / 2];
#pragma unroll
  for (int i = 0; i < kBlockSize / 2; ++i) largest[i] = x.pair[i];
#pragma unroll
  for (int half = kBlockSize / 4; half >= 1; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) largest[i] = larger_magnitudes<Type, kPropagateNan>(largest[i], largest[i + half]);
  }
  const uint32_t whole = larger_magnitudes<Type, kPropagateNan>(largest[0], largest[0] >> 16) & 0x7FFFu;
  return Type::to_float(static_cast<uint16_t>(whole));
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

// A warp's share of a row on its way from memory: `kDepth` stages of 32 blocks. A lane asks for 16 bytes next to those of
// its neighbours, so that a request covers whole sectors, and reads the 32 bytes of its own block.
template <bool kFused>
class Ring {
 public:
  static constexpr int kDepth = 3;
  static constexpr int kHalfBytes = 512;  // 32 lanes of 16 bytes
  static constexpr int kRowBytes = 2 * kHalfBytes;
  static constexpr int kStageBytes = kFused ? 2 * kRowBytes : kRowBytes;
  static constexpr int kBytesAWarp = kDepth * kStageBytes;

  // `input`: column 0 of row 0; `first_block`: the warp's; `blocks`: those of a row.
  __device__ __forceinline__ Ring(uint8_t* stages, const uint16_t* input, int32_t first_block, int32_t blocks)
      : lane_(static_cast<int32_t>(threadIdx.x) % 32),
        from_(reinterpret_cast<const uint8_t*>(input + first_block * kBlockSize) + lane_ * 16),
        to_(static_cast<uint32_t>(__cvta_generic_to_shared(stages)) + lane_ * 16),
        stages_(stages + lane_ * 32) {
    const int32_t live_pieces = 2 * (blocks - first_block);
    bytes_[0] = lane_ < live_pieces ? 16 : 0;
    bytes_[1] = lane_ + 32 < live_pieces ? 16 : 0;
  }

  // Asks for a row that begins `row_byte` bytes into the input (gate; up lies `up_byte` on), or for zeros.
  __device__ __forceinline__ void ask(int64_t row_byte, int64_t up_byte, bool zeros) {
    const uint8_t* from = from_ + row_byte;
    const uint32_t to = to_ + stage_;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t bytes = zeros ? 0 : bytes_[half];
      copy_async(to + half * kHalfBytes, from + half * kHalfBytes, bytes);
      if constexpr (kFused) copy_async(to + kRowBytes + half * kHalfBytes, from + up_byte + half * kHalfBytes, bytes);
    }
  }

  // Ends the step of a row, asked for or not: the next stage is the oldest one.
  __device__ __forceinline__ void advance() {
    copies_issued();
    stage_ = stage_ + kStageBytes == kBytesAWarp ? 0 : stage_ + kStageBytes;
  }

  // The oldest row, at this lane's block; up lies `kRowBytes` on.
  __device__ __forceinline__ const uint8_t* arrived() const {
    wait_for_copies<kDepth - 1>();
    __syncwarp();
    return stages_ + stage_;
  }

 private:
  int32_t lane_;
  const uint8_t* from_;
  uint32_t to_;
  const uint8_t* stages_;
  int32_t bytes_[2];
  int32_t stage_ = 0;
};

// Stores the scales of a row, and the row padding beside them: quads of lanes make words of their bytes. All lanes of a
// warp come here, those with blocks of the row `store`. `row_scales`: the word of the row's first four blocks.
__device__ __forceinline__ void store_scales(uint8_t* row_scales, uint32_t block, uint8_t scale,
                                             const PaddingBeside& beside, bool store) {
  const uint32_t place = block % kTileBlocks;
  uint32_t scales = static_cast<uint32_t>(scale) << (8 * place);
  scales |= __shfl_xor_sync(0xFFFFFFFFu, scales, 1);
  scales |= __shfl_xor_sync(0xFFFFFFFFu, scales, 2);
  if (!store) return;
  auto* mine = reinterpret_cast<uint32_t*>(row_scales + block / kTileBlocks * (kTileRows * kTileBlocks) + 4 * place);
  if (place <= static_cast<uint32_t>(beside.words_behind)) *mine = place == 0 ? scales : 0;
  if (beside.next_piece) mine[kPieceWords] = 0;
}

// What a thread keeps of the expert whose rows it works on.
struct Expert {
  Owner owner;
  float global_encode_scale;
  float global_reciprocal;
  uint8_t* scales;  // the expert's region
};

template <Form kForm, class Arithmetic>
__device__ __forceinline__ Expert find_expert(const QuantizeArguments& call, int32_t row, int32_t words, bool shared,
                                              const Arithmetic& arithmetic) {
  Owner owner;
  if constexpr (kForm == Form::kMasked) {
    owner = masked_owner(call, static_cast<int32_t>(blockIdx.z));
  } else {
    const int32_t found = shared ? count_not_above(call.expert_offsets, call.experts + 1, row)
                                 : count_not_above_at_once(call.expert_offsets, call.experts + 1, row);
    owner = ragged_owner(call, found - 1);
  }
  const float g = owner.expert < 0 ? 1.0f : call.global_encode_scale[owner.expert];
  return Expert{owner, g, arithmetic.reciprocal(g), call.block_scale + region_byte(owner, words)};
}

// The vectors by expert, copied to shared memory: a search there takes a tenth of the time. `call` then points there.
__device__ __forceinline__ void copy_expert_vectors(QuantizeArguments& call, int32_t* shared) {
  const auto threads = static_cast<int32_t>(blockDim.x * blockDim.y);
  for (auto i = static_cast<int32_t>(threadIdx.y * blockDim.x + threadIdx.x); i <= call.experts; i += threads) {
    shared[i] = call.expert_offsets[i];
    shared[call.experts + 1 + i] = call.blockscale_offsets[i];
    if (i < call.experts) shared[2 * (call.experts + 1) + i] = __float_as_int(call.global_encode_scale[i]);
  }
  call.expert_offsets = shared;
  call.blockscale_offsets = shared + call.experts + 1;
  call.global_encode_scale = reinterpret_cast<const float*>(shared + 2 * (call.experts + 1));
  __syncthreads();
}

template <class Type, bool kFused, class Arithmetic>
__device__ __forceinline__ Result quantize_loaded(const QuantizeArguments& call, const Registers& x, const Registers& up,
                                                  int32_t row, int32_t block, float g, float global_reciprocal,
                                                  const Arithmetic& arithmetic) {
  if constexpr (std::is_same_v<Arithmetic, NoArithmetic>) {
    return unquantized<kFused>(x, up);
  } else if constexpr (kFused) {
    return quantize_registers<Type, kFused>(call, gated<Type>(x, up, arithmetic), row, block, g, global_reciprocal,
                                            arithmetic);
  } else {
    return quantize_registers<Type, kFused>(call, x, row, block, g, global_reciprocal, arithmetic);
  }
}

struct Split {
  int32_t row_blocks;    // thread blocks along x that work on rows
  int32_t rows_each;     // neighbouring rows of a warp
  int32_t vectors_at;    // byte of dynamic shared memory where the vectors by expert go; 0: they stay in global memory
};

template <class Type, bool kFused, Form kForm, class Arithmetic>
__device__ __forceinline__ void quantize_rows(const QuantizeArguments& call, const Arithmetic& arithmetic,
                                              const Split& split) {
  extern __shared__ __align__(16) uint8_t shared[];
  constexpr int kAhead = Ring<kFused>::kDepth - 1;
  const auto block = static_cast<int32_t>(blockIdx.y * blockDim.x + threadIdx.x);
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t warp = static_cast<int32_t>(threadIdx.y * blockDim.x + threadIdx.x) / 32;
  const int32_t blocks = call.k / kBlockSize;
  const int32_t words = (call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize * kTileBlocks);
  const auto rows = static_cast<int32_t>(kForm == Form::kMasked ? call.rows_per_expert : call.rows);
  const int32_t slab = kForm == Form::kMasked ? static_cast<int32_t>(blockIdx.z) * rows : 0;
  const auto first = static_cast<int32_t>((blockIdx.x * blockDim.y + threadIdx.y) * split.rows_each);
  int32_t row = slab + first;
  const int32_t end = slab + min(first + split.rows_each, rows);
  Ring<kFused> ring(shared + warp * Ring<kFused>::kBytesAWarp, call.input, block - lane, blocks);
  const auto ask = [&](int32_t wanted) {
    if (wanted < end) {
      const int64_t source = kForm == Form::kGathered ? source_row(call, wanted) : wanted;
      ring.ask(source * (int64_t{call.input_stride} * 2), int64_t{call.k} * 2, kForm == Form::kGathered && source < 0);
    }
    ring.advance();
  };
  for (int i = 0; i < kAhead; ++i) ask(row + i);
  QuantizeArguments with_vectors = call;
  if (split.vectors_at != 0) copy_expert_vectors(with_vectors, reinterpret_cast<int32_t*>(shared + split.vectors_at));
  Expert expert{nobody(0), 0.0f, 0.0f, nullptr};
#pragma unroll 1
  for (; row < end; ++row) {
    ask(row + kAhead);
    if (row >= expert.owner.next_row) {
      expert = find_expert<kForm>(with_vectors, row, words, split.vectors_at != 0, arithmetic);
    }
    const uint8_t* staged = ring.arrived();
    if (row < expert.owner.end_row) {  // for all lanes or none
      uint8_t scale = 0;
      if (block < blocks) {
        const Registers x = load_registers(staged);
        Registers up{};
        if constexpr (kFused) up = load_registers(staged + Ring<kFused>::kRowBytes);
        const Result result = quantize_loaded<Type, kFused>(
            call, x, up, row, block, expert.global_encode_scale, expert.global_reciprocal, arithmetic);
        store_once(call.packed + int64_t{row} * (call.k / 2) + block * (kBlockSize / 2), result.packed);
        scale = result.scale;
      }
      const int32_t row_in_expert = row - expert.owner.first_row;
      uint8_t* row_scales =
          expert.scales + row_byte_128x4(static_cast<uint32_t>(row_in_expert), static_cast<uint32_t>(words));
      const bool store = block < words * kTileBlocks;
      if (row + kTileLanes < expert.owner.end_row) {  // no padding beside it: the bytes cost less than words of them
        if (store) row_scales[block_byte_128x4(static_cast<uint32_t>(block))] = scale;
      } else {
        store_scales(row_scales, static_cast<uint32_t>(block), scale,
                     padding_beside(row_in_expert, expert.owner.end_row - expert.owner.first_row), store);
      }
    }
    __syncwarp();  // nobody overwrites a stage that a lane still reads
  }
}

__device__ __forceinline__ void zero_padding_of_expert(const QuantizeArguments& call, int32_t expert) {
  const PaddingPlace place = padding_place(call, expert);
  const int32_t lanes = kTileLanes - place.first_lane;
  if (lanes == 0) return;
  const auto threads = static_cast<int32_t>(blockDim.x * blockDim.y);
  const auto thread = static_cast<int32_t>(threadIdx.y * blockDim.x + threadIdx.x);
  const auto splits = static_cast<int32_t>(gridDim.y);
  const int32_t pieces = (call.k + kBlockSize * kTileBlocks - 1) / (kBlockSize * kTileBlocks) * lanes;
#pragma unroll 1
  for (int32_t piece = static_cast<int32_t>(blockIdx.y) * threads + thread; piece < pieces; piece += splits * threads) {
    zero_padding_piece(call, place, piece / lanes, place.first_lane + piece % lanes, Store{});
  }
}

// Thread blocks (x, y, z): x counts groups of rows, y the parts of a row, z the experts of the masked form. Behind the
// `row_blocks` of rows, x counts the experts whose row padding is to be zeroed (masked form: one, that of z).
template <class Type, bool kFused, Form kForm, class Arithmetic>
__global__ void __launch_bounds__(kMostThreads, kResidentBlocks)
    quantize_kernel(const __grid_constant__ QuantizeArguments call, Arithmetic arithmetic, Split split) {
  const int32_t behind = static_cast<int32_t>(blockIdx.x) - split.row_blocks;
  let_next_start();
  wait_for_previous();
  if (behind >= 0) {
    zero_padding_of_expert(call, kForm == Form::kMasked ? static_cast<int32_t>(blockIdx.z) : behind);
  } else {
    quantize_rows<Type, kFused, kForm>(call, arithmetic, split);
  }
}

}  // namespace nvfp4_moe::device

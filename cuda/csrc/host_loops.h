// Host twin: the kernel bodies run from loops instead of a grid. No torch, no tvm-ffi, so that the stand-alone driver
// (sanitizers, huge sparse shapes) and the library run the same code.
//
// A `Schedule` says how: over how many threads, and, for tests, in which order. The order of tasks must not change a
// result; a seed shuffles it, and `CountWriters` in place of `Store` counts the writers of each byte.
#pragma once

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "nvfp4_moe/quantize.h"
#include "nvfp4_moe/routing.h"
#include "nvfp4_moe/rows.h"
#include "nvfp4_moe/swizzle.h"

namespace nvfp4_moe::host {

struct Schedule {
  int threads = 1;
  int64_t seed = -1;  // -1: tasks in natural order
};

// A 64-bit mixer (splitmix64), enough to shuffle with.
inline uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

inline std::vector<int64_t> shuffled(int64_t count, int64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = count - 1; i > 0; --i) {
    const uint64_t word = mix(static_cast<uint64_t>(seed) * 0x100000001B3ull + static_cast<uint64_t>(i));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(word % static_cast<uint64_t>(i + 1))]);
  }
  return order;
}

// Runs task(first, last) over pieces of [0, count), at least `grain` tasks each.
template <class Task>
void for_pieces(int64_t count, int64_t grain, const Schedule& schedule, const Task& task) {
  if (count <= 0) return;
  if (schedule.seed >= 0) {
    for (const int64_t index : shuffled(count, schedule.seed)) task(index, index + 1);
    return;
  }
  const int64_t pieces = std::min<int64_t>(schedule.threads, ceil_div(count, grain));
  if (pieces <= 1) {
    task(int64_t{0}, count);
    return;
  }
  std::vector<std::thread> workers;
  const int64_t length = ceil_div(count, pieces);
  for (int64_t first = length; first < count; first += length) {
    workers.emplace_back([&task, first, length, count] { task(first, std::min(first + length, count)); });
  }
  task(int64_t{0}, length);
  for (std::thread& worker : workers) worker.join();
}

constexpr int64_t kBytesWorthAThread = int64_t{1} << 18;

inline int64_t grain_of(int64_t bytes_a_task) {
  return std::max<int64_t>(1, kBytesWorthAThread / std::max<int64_t>(1, bytes_a_task));
}

// --- quantization --------------------------------------------------------------------------------------------------

enum class RowPadding { kZero, kUnwritten };

template <class Type, bool kFused, class Arithmetic, class Writer>
void quantize_row(const QuantizeArguments& call, int64_t row, const Arithmetic& arithmetic, const Writer& write) {
  const Owner owner = owner_of_row(call, row);
  if (row >= owner.end_row) return;
  const int64_t source = source_row(call, row);
  const float global_reciprocal = arithmetic.reciprocal(call.global_encode_scale[owner.expert]);
  const int64_t blocks = scale_words(call.k) * kTileBlocks;
  for (int64_t block = 0; block < blocks; ++block) {
    quantize_row_block<Type, kFused>(call, owner, row, source, block, global_reciprocal, arithmetic, write);
  }
}

// Rows [first_row, last_row) of the call, then the row padding of every expert.
template <class Type, bool kFused, class Arithmetic, class Writer>
void quantize(const QuantizeArguments& call, int64_t first_row, int64_t last_row, RowPadding row_padding,
              const Arithmetic& arithmetic, const Writer& write, const Schedule& schedule) {
  for_pieces(last_row - first_row, grain_of(2 * int64_t{call.k}), schedule, [&](int64_t first, int64_t last) {
    for (int64_t row = first_row + first; row < first_row + last; ++row) {
      quantize_row<Type, kFused>(call, row, arithmetic, write);
    }
  });
  if (row_padding == RowPadding::kUnwritten) return;
  for_pieces(call.experts, grain_of(kTileRows * int64_t{call.k} / 16), schedule, [&](int64_t first, int64_t last) {
    for (int64_t expert = first; expert < last; ++expert) {
      const PaddingPlace place = padding_place(call, static_cast<int32_t>(expert));
      for (int32_t word = 0; word < scale_words(call.k); ++word) {
        for (int32_t lane = place.first_lane; lane < kTileLanes; ++lane) {
          zero_padding_piece(call, place, word, lane, write);
        }
      }
    }
  });
}

// --- routing -------------------------------------------------------------------------------------------------------

template <class Id, class Writer>
void route(const RoutingArguments<Id>& call, int64_t workers, const Writer& write, const Schedule& schedule) {
  const auto experts = static_cast<size_t>(call.experts);
  const int64_t length = segment_length(workers, call.slots);
  std::vector<int32_t> seen(static_cast<size_t>(workers) * experts, 0);  // (workers, E)
  for_pieces(workers, 1, schedule, [&](int64_t first, int64_t last) {
    for (int64_t worker = first; worker < last; ++worker) {
      int32_t* mine = seen.data() + worker * call.experts;
      const Segment segment = segment_of(worker, length, call.slots);
      for (int32_t slot = segment.first; slot < segment.last; ++slot) {
        const int32_t expert = expert_of_slot(call, slot);
        if (expert != kNoExpert) ++mine[expert];
      }
    }
  });
  int32_t offset = 0;
  int32_t padded_offset = 0;
  for (int32_t e = 0; e < call.experts; ++e) {
    const int32_t start = offset;
    for (int64_t worker = 0; worker < workers; ++worker) {
      int32_t& cell = seen[static_cast<size_t>(worker * call.experts + e)];
      const int32_t count = cell;
      cell = offset;
      offset += count;
    }
    write_expert(call, e, offset - start, start, padded_offset, write);
    padded_offset += static_cast<int32_t>(round_up(offset - start, kTileRows));
  }
  for_pieces(workers, 1, schedule, [&](int64_t first, int64_t last) {
    for (int64_t worker = first; worker < last; ++worker) {
      int32_t* next = seen.data() + worker * call.experts;
      const Segment segment = segment_of(worker, length, call.slots);
      for (int32_t slot = segment.first; slot < segment.last; ++slot) {
        const int32_t expert = expert_of_slot(call, slot);
        if (expert == kNoExpert) {
          skip_slot(call, slot, offset, write);
        } else {
          place_slot(call, slot, slot / call.topk, next[expert]++, write);
        }
      }
    }
  });
  for (int32_t position = offset; position < call.slots; ++position) clear_tail(call, position, write);
}

// --- rows and swizzle ----------------------------------------------------------------------------------------------

template <class Writer>
void shuffle(const ShuffleArguments& call, const Writer& write, const Schedule& schedule) {
  for_pieces(call.rows, grain_of(call.row_bytes), schedule, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      int64_t at = 0;
      for (; at + 8 <= call.row_bytes; at += 8) shuffle_piece<uint64_t>(call, row, at, write);
      for (; at < call.row_bytes; ++at) shuffle_piece<uint8_t>(call, row, at, write);
    }
  });
}

template <class Type, class Writer>
void unpermute(const UnpermuteArguments& call, const Writer& write, const Schedule& schedule) {
  const int64_t live_rows = live_rows_of(call);
  for_pieces(call.tokens, grain_of(2 * call.k * call.topk), schedule, [&](int64_t first, int64_t last) {
    for (int64_t token = first; token < last; ++token) {
      for (int64_t column = 0; column < call.k; ++column) {
        write(call.output + token * call.k + column, unpermuted_element<Type>(call, token, column, live_rows));
      }
    }
  });
}

template <class Writer>
void swizzle(const SwizzleArguments& call, const Writer& write, const Schedule& schedule) {
  const int64_t padded_rows = round_up(call.rows, call.tile_rows);
  const int64_t words = ceil_div(call.blocks, kTileBlocks);
  for_pieces(call.experts * padded_rows, grain_of(call.blocks), schedule, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      for (int64_t word = 0; word < words; ++word) {
        swizzle_word(call, row / padded_rows, row % padded_rows, word, write);
      }
    }
  });
}

template <class Writer>
void unswizzle(const SwizzleArguments& call, const Writer& write, const Schedule& schedule) {
  for_pieces(call.experts * call.rows, grain_of(call.blocks), schedule, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      for (int64_t block = 0; block < call.blocks; ++block) {
        unswizzle_byte(call, row / call.rows, row % call.rows, block, write);
      }
    }
  });
}

}  // namespace nvfp4_moe::host

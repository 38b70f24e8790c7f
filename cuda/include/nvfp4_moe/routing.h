// Routing data of a batch: topk_ids -> where each routed row goes. Mirrors `reference/routing.py`.
//
// A stable counting sort. The M*topk ids, in memory order, are cut into one contiguous segment for each worker (a warp on
// the GPU, a loop iteration on the host):
//
//     1. each worker counts the ids of its segment by expert;
//     2. for each expert, an exclusive sum over workers; over experts, prefix sums of the counts and of the counts
//        rounded up to the tile;
//     3. each worker walks its segment again; an id's position is offset[expert] + what earlier workers have of that
//        expert + what this worker has seen of it.
//
// Rows of an expert thereby stand in the order of their tokens, and every output is written exactly once. An id of -1 is
// skipped: it is counted nowhere, its output_permutation entry is the number of routed rows, and the tail of
// input_permutation is zero. Any other id outside [0, E) is treated as -1 here; the host twin refuses it before it starts.
#pragma once

#include "common.h"

namespace nvfp4_moe {

template <class Id>
struct RoutingArguments {
  const Id* topk_ids;           // (M, topk)
  int32_t* expert_offsets;      // (E + 1,)
  int32_t* blockscale_offsets;  // (E + 1,) or null
  int32_t* problem_sizes1;      // (E, 3)
  int32_t* problem_sizes2;      // (E, 3)
  int32_t* input_permutation;   // (M * topk,)
  int32_t* output_permutation;  // (M * topk,)
  int32_t slots;                // M * topk; with the row padding of all experts it still fits 32 bits
  int32_t topk;
  int32_t experts;
  int32_t n;
  int32_t k;
  int32_t columns1;             // N of the first GEMM: 2n if gated, else n
};

constexpr int kNoExpert = -1;
constexpr int kSegmentGrain = 32;  // segments are whole groups of this many ids: one for each lane of a warp

struct Segment {
  int32_t first;
  int32_t last;
};

// Slots of a segment; the last ones may be shorter, or empty.
NVFP4_HD int64_t segment_length(int64_t workers, int32_t slots) {
  return round_up(ceil_div(slots, workers), kSegmentGrain);
}

NVFP4_HD Segment segment_of(int64_t worker, int64_t length, int32_t slots) {
  const int64_t first = worker * length < slots ? worker * length : slots;
  const int64_t last = first + length < slots ? first + length : slots;
  return Segment{static_cast<int32_t>(first), static_cast<int32_t>(last)};
}

template <class Id>
NVFP4_HD int32_t expert_of_slot(const RoutingArguments<Id>& call, int32_t slot) {
  const Id id = call.topk_ids[slot];
  return id >= 0 && id < static_cast<Id>(call.experts) ? static_cast<int32_t>(id) : kNoExpert;
}

// What expert e says about itself. `offset` and `padded_offset` are the prefix sums before it; the last expert closes
// both vectors.
template <class Id, class Writer>
NVFP4_HD void write_expert(const RoutingArguments<Id>& call, int32_t e, int32_t count, int32_t offset,
                           int32_t padded_offset, const Writer& write) {
  write(call.expert_offsets + e, offset);
  if (call.blockscale_offsets != nullptr) write(call.blockscale_offsets + e, padded_offset);
  write(call.problem_sizes1 + int64_t{3} * e, count);
  write(call.problem_sizes1 + int64_t{3} * e + 1, call.columns1);
  write(call.problem_sizes1 + int64_t{3} * e + 2, call.k);
  write(call.problem_sizes2 + int64_t{3} * e, count);
  write(call.problem_sizes2 + int64_t{3} * e + 1, call.k);
  write(call.problem_sizes2 + int64_t{3} * e + 2, call.n);
  if (e == call.experts - 1) {
    write(call.expert_offsets + e + 1, offset + count);
    if (call.blockscale_offsets != nullptr) {
      write(call.blockscale_offsets + e + 1, padded_offset + static_cast<int32_t>(round_up(count, kTileRows)));
    }
  }
}

// A slot of `token` = slot / topk whose expert is known: `position` is its routed row.
template <class Id, class Writer>
NVFP4_HD void place_slot(const RoutingArguments<Id>& call, int32_t slot, int32_t token, int32_t position,
                         const Writer& write) {
  write(call.output_permutation + slot, position);
  write(call.input_permutation + position, token);
}

// A slot without an expert: it points behind the routed rows.
template <class Id, class Writer>
NVFP4_HD void skip_slot(const RoutingArguments<Id>& call, int32_t slot, int32_t routed_rows, const Writer& write) {
  write(call.output_permutation + slot, routed_rows);
}

// Entries of input_permutation behind the routed rows.
template <class Id, class Writer>
NVFP4_HD void clear_tail(const RoutingArguments<Id>& call, int32_t position, const Writer& write) {
  write(call.input_permutation + position, int32_t{0});
}

}  // namespace nvfp4_moe

// Moving rows: the gather by a permutation, and the weighted sum that undoes it.
#pragma once

#include "formats.h"

namespace nvfp4_moe {

// output[row] = input[map[row]]. An index outside the input gives a row of zeros; nothing is read for it.
struct ShuffleArguments {
  const uint8_t* input;  // rows `input_stride` bytes apart
  const int32_t* map;    // (rows,)
  uint8_t* output;       // (rows, row_bytes)
  int64_t rows;
  int64_t source_rows;
  int64_t input_stride;
  int64_t row_bytes;
};

// One piece of a row: bytes [at, at + sizeof(Word)).
template <class Word, class Writer>
NVFP4_HD void shuffle_piece(const ShuffleArguments& call, int64_t row, int64_t at, const Writer& write) {
  const int64_t source = call.map[row];
  Word word{};
  if (source >= 0 && source < call.source_rows) memcpy(&word, call.input + source * call.input_stride + at, sizeof word);
  write(call.output + row * call.row_bytes + at, word);
}

// output[token] = sum over j = 0, 1, ... of weight[token, j] * input[map[token, j]], each product and each sum one
// float32 operation, in this order, rounded once to the row type at the end. A row at or behind `routed_rows` was
// skipped by the router and adds nothing.
struct UnpermuteArguments {
  const uint16_t* input;      // (source rows, K)
  const int32_t* map;         // (tokens * topk,): output_permutation
  const float* weights;       // (tokens, topk)
  const int32_t* routed_rows; // expert_offsets + E
  uint16_t* output;           // (tokens, K)
  int64_t tokens;
  int64_t source_rows;
  int64_t k;
  int32_t topk;
};

template <class Type>
NVFP4_HD uint16_t unpermuted_element(const UnpermuteArguments& call, int64_t token, int64_t column,
                                     int64_t live_rows) {
  float sum = 0.0f;
  for (int32_t j = 0; j < call.topk; ++j) {
    const int64_t source = call.map[token * call.topk + j];
    if (source < 0 || source >= live_rows) continue;
    const float product = call.weights[token * call.topk + j] * Type::to_float(call.input[source * call.k + column]);
    sum = sum + product;
  }
  return Type::from_float(sum);
}

NVFP4_HD int64_t live_rows_of(const UnpermuteArguments& call) {
  const int64_t routed = *call.routed_rows;
  return routed < call.source_rows ? routed : call.source_rows;
}

}  // namespace nvfp4_moe

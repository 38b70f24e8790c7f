// Host twin of the grouped GEMM: the shared operand and index functions, run from loops.
//
// A float32 sum takes the products in the order of K that the kernels take them in (steps of 128, products of 16), one
// rounding each. Tensor cores round otherwise inside a product of 16; the two agree where no addition rounds.
#pragma once

#include <vector>

#include "host_loops.h"
#include "nvfp4_moe/gemm.h"

namespace nvfp4_moe::host {

constexpr int kLanes = 8;  // columns of out whose sums run side by side

// Position p of K, padded to whole steps -> column, or -1 past K.
inline std::vector<int32_t> order_of_k(int32_t k) {
  std::vector<int32_t> order(static_cast<size_t>(round_up(k, kStepK)));
  for (size_t p = 0; p < order.size(); ++p) {
    const auto position = static_cast<int32_t>(p);
    const int32_t column = position / kStepK * kStepK + column_of_position(position % kStepK);
    order[p] = column < k ? column : -1;
  }
  return order;
}

inline uint8_t code_at(const uint8_t* codes, int64_t row_bytes, int64_t row, int32_t column) {
  const uint8_t both = codes[row * row_bytes + column / 2];
  return column % 2 == 0 ? both & 0xF : both >> 4;
}

// Columns [first, first + kLanes) of one expert.
template <class Type, class Writer>
void gemm_columns(const GemmArguments& call, int32_t expert, int32_t first, const std::vector<int32_t>& order,
                  const Writer& write) {
  const ExpertRows rows = expert_rows(call, expert);
  const int64_t row_bytes = call.k / 2;
  std::vector<float> weights(order.size() * kLanes, 0.0f);
  for (size_t p = 0; p < order.size(); ++p) {
    if (order[p] < 0) continue;
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint8_t code = code_at(call.b, row_bytes, int64_t{expert} * call.n + first + lane, order[p]);
      weights[p * kLanes + static_cast<size_t>(lane)] =
          operand(code, call.b_scale[b_scale_byte(call, expert, first + lane, order[p] / kBlockSize)], order[p] % 8);
    }
  }
  for (int32_t row = 0; row < rows.count; ++row) {
    float sums[kLanes] = {};
    for (size_t p = 0; p < order.size(); ++p) {
      if (order[p] < 0) continue;
      const uint8_t code = code_at(call.a, row_bytes, int64_t{rows.first} + row, order[p]);
      const float x = operand(code, call.a_scale[a_scale_byte(call, rows, row, order[p] / kBlockSize)], order[p] % 8);
      for (int lane = 0; lane < kLanes; ++lane) {
        const float product = x * weights[p * kLanes + static_cast<size_t>(lane)];
        sums[lane] = sums[lane] + product;
      }
    }
    uint16_t* out = call.out + (int64_t{rows.first} + row) * call.n + first;
    for (int lane = 0; lane < kLanes; ++lane) write(out + lane, Type::from_float(call.alphas[expert] * sums[lane]));
  }
}

template <class Type, class Writer>
void grouped_gemm(const GemmArguments& call, const Writer& write, const Schedule& schedule) {
  const std::vector<int32_t> order = order_of_k(call.k);
  const int64_t groups = call.n / kLanes;
  for_pieces(call.experts * groups, grain_of(int64_t{kLanes} * call.k), schedule, [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; ++task) {
      const auto expert = static_cast<int32_t>(task / groups);
      if (expert_rows(call, expert).count == 0) continue;
      gemm_columns<Type>(call, expert, static_cast<int32_t>(task % groups) * kLanes, order, write);
    }
  });
}

}  // namespace nvfp4_moe::host

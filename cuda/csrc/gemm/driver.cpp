// Stand-alone program around the host twin of the grouped GEMM, for sanitizers: no Python, every array in a heap block of
// exactly its size, so that AddressSanitizer sees the first byte past it.
//
//     driver cases     small calls, each output compared with sums in 64-bit integers
//     driver huge      one row and eight columns beyond 2^31 bytes of codes, in sparse mappings
//
// Codes are 0 and 1/2 to 6, scales 1 and 2: products are multiples of 1/4, and every order of additions gives the same bits.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "gemm_host.h"

namespace {

using namespace nvfp4_moe;

constexpr uint8_t kFill = 0xA5;
constexpr uint8_t kOne = 0x38;    // the scale 1; 8 more is 2
constexpr uint8_t kNan = 0x7F;    // in every padding byte
constexpr int kTwice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // of the value of a code

template <class T>
std::unique_ptr<T[]> block(int64_t count, uint8_t fill) {
  std::unique_ptr<T[]> made(new T[static_cast<size_t>(count)]);
  std::memset(made.get(), fill, static_cast<size_t>(count) * sizeof(T));
  return made;
}

uint64_t word(uint64_t& state) { return host::mix(++state); }

struct Case {
  std::vector<int32_t> counts;
  int32_t n;
  int32_t k;
};

class Call {
 public:
  explicit Call(const Case& given) : n_(given.n), k_(given.k), experts_(static_cast<int32_t>(given.counts.size())) {
    int32_t first = 0, scale_row = 0;
    for (const int32_t count : given.counts) {
      offsets_.push_back(first);
      scale_offsets_.push_back(scale_row);
      for (const int32_t size : {count, n_, k_}) sizes_.push_back(size);
      first += count;
      scale_row += static_cast<int32_t>(round_up(count, kTileRows));
    }
    rows_ = first + 1;  // one row belongs to nobody
    scale_rows_ = scale_row;
    const int64_t scale_bytes = scale_words(k_) * kTileBlocks;
    a_ = block<uint8_t>(rows_ * (k_ / 2), 0);
    b_ = block<uint8_t>(int64_t{experts_} * n_ * (k_ / 2), 0);
    a_scale_ = block<uint8_t>(scale_rows_ * scale_bytes, kNan);
    b_scale_ = block<uint8_t>(experts_ * b_scale_slab(n_, k_), kNan);
    out_ = block<uint16_t>(rows_ * n_, kFill);
    alphas_.assign(static_cast<size_t>(experts_), 0.25f);
    fill();
  }

  GemmArguments arguments() {
    return GemmArguments{a_.get(), a_scale_.get(), b_.get(), b_scale_.get(), alphas_.data(), sizes_.data(), offsets_.data(),
                         scale_offsets_.data(), out_.get(), rows_, scale_rows_, n_, k_, experts_};
  }

  bool right() {
    const GemmArguments call = arguments();
    for (int32_t e = 0; e < experts_; ++e) {
      const ExpertRows rows = expert_rows(call, e);
      for (int32_t row = 0; row < rows.count; ++row) {
        for (int32_t column = 0; column < n_; ++column) {
          const float truth = alphas_[static_cast<size_t>(e)] * (static_cast<float>(quarters(call, rows, e, row, column)) / 4);
          if (out_[(rows.first + row) * n_ + column] != Bfloat16::from_float(truth)) {
            std::printf("expert %d, row %d, column %d differs\n", e, row, column);
            return false;
          }
        }
      }
    }
    for (int64_t at = (rows_ - 1) * n_; at < rows_ * n_; ++at) {
      if (out_[at] != (kFill | kFill << 8)) return false;
    }
    return true;
  }

 private:
  void fill() {
    uint64_t state = static_cast<uint64_t>(n_) * 1000 + static_cast<uint64_t>(k_);
    for (int64_t i = 0; i < rows_ * (k_ / 2); ++i) a_[i] = static_cast<uint8_t>(word(state));
    for (int64_t i = 0; i < int64_t{experts_} * n_ * (k_ / 2); ++i) b_[i] = static_cast<uint8_t>(word(state));
    const GemmArguments call = arguments();
    for (int32_t e = 0; e < experts_; ++e) {
      const ExpertRows rows = expert_rows(call, e);
      for (int32_t block = 0; block < k_ / kBlockSize; ++block) {
        for (int32_t row = 0; row < rows.count; ++row) a_scale_[a_scale_byte(call, rows, row, block)] = scale(state);
        for (int32_t column = 0; column < n_; ++column) b_scale_[b_scale_byte(call, e, column, block)] = scale(state);
      }
    }
  }

  static uint8_t scale(uint64_t& state) { return static_cast<uint8_t>(kOne + 8 * (word(state) & 1)); }

  int64_t quarters(const GemmArguments& call, const ExpertRows& rows, int32_t e, int32_t row, int32_t column) const {
    int64_t sum = 0;
    for (int32_t at = 0; at < k_; ++at) {
      const int left = kTwice[host::code_at(call.a, k_ / 2, rows.first + row, at)];
      const int right = kTwice[host::code_at(call.b, k_ / 2, int64_t{e} * n_ + column, at)];
      const int first = a_scale_[a_scale_byte(call, rows, row, at / kBlockSize)] == kOne ? 1 : 2;
      const int second = b_scale_[b_scale_byte(call, e, column, at / kBlockSize)] == kOne ? 1 : 2;
      sum += int64_t{left * first} * (right * second);
    }
    return sum;
  }

  int32_t n_, k_, experts_;
  int64_t rows_ = 0, scale_rows_ = 0;
  std::vector<int32_t> sizes_, offsets_, scale_offsets_;
  std::vector<float> alphas_;
  std::unique_ptr<uint8_t[]> a_, b_, a_scale_, b_scale_;
  std::unique_ptr<uint16_t[]> out_;
};

bool cases() {
  const Case all[] = {{{1}, 8, 16}, {{0, 3, 0, 2}, 24, 80}, {{129, 0, 1}, 136, 48}, {{2}, 128, 208}, {{0, 0}, 16, 64}};
  for (const Case& given : all) {
    for (const host::Schedule& schedule : {host::Schedule{1, -1}, host::Schedule{2, -1}, host::Schedule{1, 5}}) {
      Call call(given);
      host::grouped_gemm<Bfloat16>(call.arguments(), Store{}, schedule);
      if (!call.right()) return false;
    }
  }
  return true;
}

// Address space without memory: pages appear where they are touched.
uint8_t* sparse(int64_t size) {
  void* at = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) std::exit(2);
  return static_cast<uint8_t*>(at);
}

// 160 experts of 4,096 x 7,168 are 2.3e9 bytes of codes; 610,000 rows of 7,168 are 2.2e9, and 5e9 bytes of output.
bool huge() {
  constexpr int32_t kExperts = 160, kN = 4'096, kK = 7'168, kRows = 610'000;
  std::vector<int32_t> sizes(3 * kExperts, 0), offsets(kExperts, kRows - 1), scale_offsets(kExperts, 609'920);
  std::vector<float> alphas(kExperts, 1.0f);
  sizes[3 * (kExperts - 1)] = 1;
  const int64_t scale_rows = round_up(kRows, kTileRows) + kTileRows;
  GemmArguments call{sparse(int64_t{kRows} * (kK / 2)), sparse(scale_rows * scale_words(kK) * kTileBlocks),
                     sparse(int64_t{kExperts} * kN * (kK / 2)), sparse(kExperts * b_scale_slab(kN, kK)), alphas.data(),
                     sizes.data(), offsets.data(), scale_offsets.data(),
                     reinterpret_cast<uint16_t*>(sparse(int64_t{kRows} * kN * 2)), kRows, scale_rows, kN, kK, kExperts};
  const ExpertRows rows = expert_rows(call, kExperts - 1);
  const auto set = [](const uint8_t* at, uint8_t value) { *const_cast<uint8_t*>(at) = value; };
  const int32_t last = kK / kBlockSize - 1;
  set(call.a + int64_t{kRows} * (kK / 2) - 1, 0x20);                                // 1 in the last column
  set(call.b + int64_t{kExperts} * kN * (kK / 2) - 1, 0x50);                        // 3
  set(call.a_scale + a_scale_byte(call, rows, 0, last), kOne + 8);                  // 2
  set(call.b_scale + b_scale_byte(call, kExperts - 1, kN - 1, last), kOne);
  const std::vector<int32_t> order = host::order_of_k(kK);
  host::gemm_columns<Bfloat16>(call, kExperts - 1, kN - host::kLanes, order, Store{});
  const float result = Bfloat16::to_float(call.out[int64_t{kRows} * kN - 1]);
  std::printf("huge: %g\n", static_cast<double>(result));
  return result == 6.0f;
}

}  // namespace

int main(int count, char** words) {
  if (count == 2 && std::strcmp(words[1], "cases") == 0) return cases() ? 0 : 1;
  if (count == 2 && std::strcmp(words[1], "huge") == 0) return huge() ? 0 : 1;
  std::fprintf(stderr, "usage: driver cases | huge\n");
  return 2;
}

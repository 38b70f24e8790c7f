// Stand-alone program around the host twin, for sanitizers: no Python, no torch, every array in a heap block of exactly its
// size, so that AddressSanitizer sees the first byte past it.
//
//     host_driver case FILE    run one case and compare every output byte with the file's
//     host_driver huge         quantize and move the last rows of tensors beyond 2^31 elements in sparse mappings
//
// A case file is little-endian: ten int64 (op, float16?, fused?, K, experts, rows, scale rows, rows per expert, topk,
// n), then arrays, each an int64 byte count and the bytes:
//   op 0 ragged    input, global scales, expert_offsets, blockscale_offsets, source rows (may be empty), silu values
//                  (may be empty), true packed, true scales
//   op 1 masked    the same with masked_m in place of expert_offsets, blockscale_offsets and source rows empty
//   op 2 routing   ids int32, true expert_offsets, blockscale_offsets, problem sizes 1 and 2, both permutations
// Outputs start as bytes 0xA5; the true arrays hold that byte wherever nothing may be written.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "host_loops.h"

namespace {

using namespace nvfp4_moe;
using host::RowPadding;
using host::Schedule;

constexpr int kFill = 0xA5;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "host_driver: %s\n", what);
  std::exit(2);
}

// A heap block of exactly `size` bytes.
struct Block {
  std::unique_ptr<uint8_t[]> bytes;
  int64_t size = 0;

  template <class T>
  T* as() const {
    return size == 0 ? nullptr : reinterpret_cast<T*>(bytes.get());
  }
};

Block filled(int64_t size) {
  Block block{std::make_unique<uint8_t[]>(static_cast<size_t>(size)), size};
  std::memset(block.bytes.get(), kFill, static_cast<size_t>(size));
  return block;
}

class CaseFile {
 public:
  explicit CaseFile(const char* path) : file_(std::fopen(path, "rb")) {
    if (file_ == nullptr) fail("cannot open the case file");
    for (int64_t& number : numbers) number = next_number();
  }
  ~CaseFile() { std::fclose(file_); }

  Block next() {
    Block block = filled(next_number());
    read(block.bytes.get(), static_cast<size_t>(block.size));
    return block;
  }

  int64_t numbers[10];

 private:
  int64_t next_number() {
    int64_t number;
    read(&number, sizeof number);
    return number;
  }
  void read(void* to, size_t size) {
    if (std::fread(to, 1, size, file_) != size) fail("the case file is truncated");
  }
  std::FILE* file_;
};

bool same(const char* name, const Block& subject, const Block& truth) {
  if (subject.size != truth.size) fail("an output has another size than its true bytes");
  for (int64_t i = 0; i < subject.size; ++i) {
    if (subject.bytes[i] != truth.bytes[i]) {
      std::printf("%s: byte %lld is 0x%02x, true 0x%02x\n", name, static_cast<long long>(i), subject.bytes[i],
                  truth.bytes[i]);
      return false;
    }
  }
  return true;
}

template <class Type>
void run_quantize(const QuantizeArguments& call, bool fused, const float* silu, const Schedule& schedule) {
  const IeeeArithmetic arithmetic{silu};
  if (fused) {
    host::quantize<Type, true>(call, 0, call.rows, RowPadding::kZero, arithmetic, Store{}, schedule);
  } else {
    host::quantize<Type, false>(call, 0, call.rows, RowPadding::kZero, arithmetic, Store{}, schedule);
  }
}

bool quantize_case(CaseFile& file, bool masked) {
  const int64_t* n = file.numbers;
  const bool float16 = n[1] != 0;
  const bool fused = n[2] != 0;
  const Block input = file.next(), scales = file.next(), first = file.next(), second = file.next(),
              source = file.next(), silu = file.next(), true_packed = file.next(), true_scale = file.next();
  bool right = true;
  for (const Schedule& schedule : {Schedule{1, -1}, Schedule{2, -1}, Schedule{1, 7}}) {
    const Block packed = filled(true_packed.size), block_scale = filled(true_scale.size);
    QuantizeArguments call{};
    call.input = input.as<uint16_t>();
    call.global_encode_scale = scales.as<float>();
    call.expert_offsets = masked ? nullptr : first.as<int32_t>();
    call.blockscale_offsets = second.as<int32_t>();
    call.masked_m = masked ? first.as<int32_t>() : nullptr;
    call.source_rows = source.as<int32_t>();
    call.packed = packed.as<uint8_t>();
    call.block_scale = block_scale.as<uint8_t>();
    call.k = static_cast<int32_t>(n[3]);
    call.experts = static_cast<int32_t>(n[4]);
    call.rows = n[5];
    call.scale_rows = n[6];
    call.rows_per_expert = n[7];
    call.input_stride = fused ? 2 * call.k : call.k;
    call.num_source_rows = input.size / 2 / call.input_stride;
    if (float16) {
      run_quantize<Float16>(call, fused, silu.as<float>(), schedule);
    } else {
      run_quantize<Bfloat16>(call, fused, silu.as<float>(), schedule);
    }
    right = same("packed", packed, true_packed) && same("block_scale", block_scale, true_scale) && right;
  }
  return right;
}

bool routing_case(CaseFile& file) {
  const int64_t* n = file.numbers;
  const Block ids = file.next();
  const char* names[] = {"expert_offsets", "blockscale_offsets", "problem_sizes1",
                         "problem_sizes2", "input_permutation",  "output_permutation"};
  Block truth[6];
  for (Block& block : truth) block = file.next();
  bool right = true;
  for (const int64_t workers : {1, 3, 64}) {
    Block out[6];
    for (int i = 0; i < 6; ++i) out[i] = filled(truth[i].size);
    RoutingArguments<int32_t> call{};
    call.topk_ids = ids.as<int32_t>();
    call.expert_offsets = out[0].as<int32_t>();
    call.blockscale_offsets = out[1].as<int32_t>();
    call.problem_sizes1 = out[2].as<int32_t>();
    call.problem_sizes2 = out[3].as<int32_t>();
    call.input_permutation = out[4].as<int32_t>();
    call.output_permutation = out[5].as<int32_t>();
    call.slots = static_cast<int32_t>(ids.size / 4);
    call.k = static_cast<int32_t>(n[3]);
    call.experts = static_cast<int32_t>(n[4]);
    call.topk = static_cast<int32_t>(n[8]);
    call.n = static_cast<int32_t>(n[9]);
    call.columns1 = 2 * call.n;
    host::route(call, workers, Store{}, Schedule{2, -1});
    for (int i = 0; i < 6; ++i) right = same(names[i], out[i], truth[i]) && right;
  }
  return right;
}

// Address space without memory: pages appear where they are touched.
uint8_t* sparse(int64_t size) {
  void* at = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) fail("cannot map sparse memory");
  return static_cast<uint8_t*>(at);
}

// 600,000 rows of K = 7,168 are 4.3e9 elements, 2.2e9 packed bytes and 2.7e8 scale bytes; only the last rows run.
bool huge_quantize() {
  constexpr int64_t kRows = 600'000, kLast = 128;
  constexpr int32_t kK = 7'168;
  const int64_t scale_rows = round_up(kRows, kTileRows);
  int32_t expert_offsets[3] = {0, static_cast<int32_t>(kRows - kLast), static_cast<int32_t>(kRows)};
  const int32_t second = static_cast<int32_t>(round_up(kRows - kLast, kTileRows));
  int32_t blockscale_offsets[3] = {0, second, second + static_cast<int32_t>(round_up(kLast, kTileRows))};
  const float scales[2] = {1.0f, 448.0f};
  uint16_t* input = reinterpret_cast<uint16_t*>(sparse(2 * kRows * kK));
  QuantizeArguments call{};
  call.input = input;
  call.global_encode_scale = scales;
  call.expert_offsets = expert_offsets;
  call.blockscale_offsets = blockscale_offsets;
  call.packed = sparse(kRows * kK / 2);
  call.block_scale = sparse(2 * scale_rows * scale_words(kK) * kTileBlocks);
  call.rows = kRows;
  call.scale_rows = 2 * scale_rows;
  call.input_stride = kK;
  call.num_source_rows = kRows;
  call.k = kK;
  call.experts = 2;
  for (int32_t column = 0; column < kK; ++column) input[(kRows - 1) * kK + column] = 0x40C0;  // 6.0
  host::quantize<Bfloat16, false>(call, kRows - kLast, kRows, RowPadding::kZero, IeeeArithmetic{nullptr}, Store{},
                                  Schedule{});
  const uint8_t last_codes = call.packed[kRows * kK / 2 - 1];
  const Owner owner = owner_of_row(call, kRows - 1);
  const int64_t at = row_scale_byte(owner, kRows - 1, scale_words(kK)) + block_byte_128x4(kK / kBlockSize - 1);
  const uint8_t last_scale = call.block_scale[at];
  std::printf("huge quantize: last codes 0x%02x, last scale 0x%02x\n", last_codes, last_scale);
  return last_codes == 0x77 && last_scale == 0x7E && owner.first_row == kRows - kLast;
}

bool huge_shuffle() {
  constexpr int64_t kRows = 600'000, kBytes = 14'336;
  uint8_t* input = sparse(kRows * kBytes);
  std::memset(input + (kRows - 1) * kBytes, 0x5A, kBytes);
  const int32_t map = static_cast<int32_t>(kRows - 1);
  const Block output = filled(kBytes);
  const ShuffleArguments call{input, &map, output.as<uint8_t>(), 1, kRows, kBytes, kBytes};
  host::shuffle(call, Store{}, Schedule{});
  return output.bytes[0] == 0x5A && output.bytes[kBytes - 1] == 0x5A;
}

}  // namespace

int main(int count, char** words) {
  if (count == 2 && std::strcmp(words[1], "huge") == 0) return huge_quantize() && huge_shuffle() ? 0 : 1;
  if (count != 3 || std::strcmp(words[1], "case") != 0) fail("usage: host_driver case FILE | huge");
  CaseFile file(words[2]);
  const bool right = file.numbers[0] == 2 ? routing_case(file) : quantize_case(file, file.numbers[0] == 1);
  return right ? 0 : 1;
}

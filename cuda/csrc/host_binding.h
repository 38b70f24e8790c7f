// What the files of the host twin's library share.
//
// `threads` is the number of CPU threads; `seed` >= 0 runs the tasks one by one in a shuffled order; `count_writers` adds
// 1 to each output byte for every write instead of writing it. The last two are for tests.
#pragma once

#include "checks.h"
#include "host_loops.h"

namespace nvfp4_moe::host {

using binding::Optional;
using binding::TensorView;

constexpr int64_t kMostThreads = 1024;

inline Schedule schedule_of(int64_t threads, int64_t seed) {
  binding::require_range("threads", threads, 1, kMostThreads);
  return Schedule{static_cast<int>(threads), seed};
}

inline void require_cpu(const TensorView& tensor) {
  if (tensor.device().device_type != kDLCPU) binding::type_error(binding::Text() << "the host twin takes tensors on the CPU");
}

template <class Function>
void with_writer(bool count_writers, const Function& function) {
  if (count_writers) {
    function(CountWriters{});
  } else {
    function(Store{});
  }
}

template <class Function>
void with_type(const TensorView& tensor, const Function& function) {
  if (tensor.dtype() == binding::kBfloat16) {
    function(Bfloat16{});
  } else {
    function(Float16{});
  }
}

inline void check_map(const char* name, const int32_t* map, int64_t entries, int64_t limit) {
  for (int64_t i = 0; i < entries; ++i) {
    if (map[i] < 0 || map[i] >= limit) {
      binding::value_error(binding::Text() << name << "[" << i << "] must be in [0, " << limit << "), got " << map[i]);
    }
  }
}

}  // namespace nvfp4_moe::host

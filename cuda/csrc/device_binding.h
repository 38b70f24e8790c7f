// What the files of the CUDA library's binding share: the device and stream of a call, and CUDA's errors.
#pragma once

#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/device_guard.h>

#include "checks.h"

namespace nvfp4_moe::device {

using binding::Optional;
using binding::TensorView;

inline void require_cuda(const TensorView& tensor) {
  if (tensor.device().device_type != kDLCUDA) binding::type_error(binding::Text() << "the kernels take CUDA tensors");
}

// The caller's current stream on the tensor's device.
inline cudaStream_t stream_of(const TensorView& tensor) {
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(kDLCUDA, tensor.device().device_id));
}

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    cudaGetLastError();  // told here, so that no later and innocent call finds it
    throw tvm::ffi::Error("RuntimeError", std::string(what) + ": " + cudaGetErrorString(error), "");
  }
}

}  // namespace nvfp4_moe::device

"""Kernels for NVFP4 mixture-of-experts expert quantization: CUDA, and the same bodies on the CPU (the host twin).

`nvfp4_moe.cuda.host_ops` and `nvfp4_moe.cuda.cuda_ops` are the two subjects: modules with the callables of the subject
protocol (`scaled_fp4_experts_quant`, `get_cutlass_moe_mm_data`, ...). `nvfp4_moe.cuda.torch_ops` defines them as PyTorch
operators. The first call builds the library (seconds; cached by content) and needs `apache-tvm-ffi`, a C++ compiler and,
for CUDA, nvcc. Importing this package and `ops` needs torch alone.
"""

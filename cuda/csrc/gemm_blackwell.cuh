// The grouped GEMM on Blackwell: CUTLASS's block-scaled kernel over groups, one group an expert.
//
// A is (rows, K) row-major, B (N, K) as the weights lie, both NVFP4 with scales in the 128x4 layout that the tensor cores
// read; sums are float32, the epilogue multiplies by alpha of the expert and rounds once. Pointers, strides and scale
// layouts of the groups are written by a kernel, from row counts that only the device knows; scale strides and the
// experts' scale offsets use the padded N and K, as the writers of the scales do.
//
// NVFP4_GEMM_TARGET is the compute capability without its point: 100, 103 or 120. Compiled and disassembled, never run.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include "gemm_blackwell.h"

namespace nvfp4_moe::blackwell {

using cute::_0;
using cute::_1;
using cute::_128;
using cute::_256;
using cute::_64;

constexpr bool kDataCenter = NVFP4_GEMM_TARGET < 120;

using Operand = cutlass::nv_float4_t<cutlass::float_e2m1_t>;
using Sizes = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;
constexpr int kOperandAlignment = 32;  // elements: 16 bytes
constexpr int kOutputAlignment = 8;

// What differs between the forms.
template <Form kForm>
struct Choice {  // compute capability 10.x
  using Arch = cutlass::arch::Sm100;
  using Tile = cute::Shape<std::conditional_t<kForm == Form::kTwoSm, _256, _128>, _256, _256>;
  using Cluster = cute::Shape<int, int, _1>;
  using EpilogueTile = cute::Shape<_128, _64>;
  using Schedule = std::conditional_t<kForm == Form::kTwoSm, cutlass::gemm::KernelPtrArrayTmaWarpSpecialized2SmNvf4Sm100,
                                      cutlass::gemm::KernelPtrArrayTmaWarpSpecialized1SmNvf4Sm100>;
  using Epilogue = std::conditional_t<kForm == Form::kTwoSm, cutlass::epilogue::PtrArrayTmaWarpSpecialized2Sm,
                                      cutlass::epilogue::PtrArrayTmaWarpSpecialized1Sm>;
};

struct SmallChoice {  // compute capability 12.x
  using Arch = cutlass::arch::Sm120;
  using Tile = cute::Shape<_128, _128, _128>;
  using Cluster = cute::Shape<_1, _1, _1>;
  using EpilogueTile = cutlass::epilogue::collective::EpilogueTileAuto;
  using Schedule = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong;
  using Epilogue = cutlass::epilogue::collective::EpilogueScheduleAuto;
};

template <class C, class Output>
struct Kernel {
  using RowMajor = cutlass::layout::RowMajor;
  using ColumnMajor = cutlass::layout::ColumnMajor;
  using Class = cutlass::arch::OpClassBlockScaledTensorOp;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      typename C::Arch, Class, typename C::Tile, typename C::Cluster, typename C::EpilogueTile, float, float, void,
      RowMajor*, kOutputAlignment, Output, RowMajor*, kOutputAlignment, typename C::Epilogue>::CollectiveOp;
  using Stages =
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>;
  using Main = typename cutlass::gemm::collective::CollectiveBuilder<
      typename C::Arch, Class, Operand, RowMajor*, kOperandAlignment, Operand, ColumnMajor*, kOperandAlignment, float,
      typename C::Tile, typename C::Cluster, Stages, typename C::Schedule>::CollectiveOp;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<cutlass::gemm::kernel::GemmUniversal<Sizes, Main, Epilogue>>;

  using StrideA = typename Gemm::GemmKernel::InternalStrideA;
  using StrideB = typename Gemm::GemmKernel::InternalStrideB;
  using StrideD = typename Gemm::GemmKernel::InternalStrideD;
  using LayoutA = typename Main::InternalLayoutSFA;
  using LayoutB = typename Main::InternalLayoutSFB;
  using Scales = typename Main::Sm1xxBlkScaledConfig;
  using Code = typename Gemm::ElementA;
  using Scale = typename Main::ElementSF;
};

// The vectors by expert, one behind the other in the workspace.
template <class K>
struct Groups {
  typename Sizes::UnderlyingProblemShape* sizes;
  const typename K::Code** a;
  const typename K::Code** b;
  const typename K::Scale** a_scale;
  const typename K::Scale** b_scale;
  const float** alpha;
  typename K::Gemm::EpilogueOutputOp::ElementOutput** out;
  typename K::StrideA* a_stride;
  typename K::StrideB* b_stride;
  typename K::StrideD* out_stride;
  typename K::LayoutA* a_layout;
  typename K::LayoutB* b_layout;
  uint8_t* end;

  Groups(void* workspace, int32_t experts) : end(static_cast<uint8_t*>(workspace)) {
    place(sizes, experts);
    place(a, experts);
    place(b, experts);
    place(a_scale, experts);
    place(b_scale, experts);
    place(alpha, experts);
    place(out, experts);
    place(a_stride, experts);
    place(b_stride, experts);
    place(out_stride, experts);
    place(a_layout, experts);
    place(b_layout, experts);
  }

 private:
  static constexpr int64_t kAlignment = 256;

  template <class T>
  void place(T*& vector, int32_t experts) {
    vector = reinterpret_cast<T*>(end);
    end += round_up(int64_t{experts} * static_cast<int64_t>(sizeof(T)), kAlignment);
  }
};

constexpr int kFillThreads = 128;

template <class K>
__global__ void __launch_bounds__(kFillThreads)
    fill_groups_kernel(const __grid_constant__ GemmArguments call, const __grid_constant__ Groups<K> groups) {
  const int32_t e = static_cast<int32_t>(blockIdx.x) * kFillThreads + static_cast<int32_t>(threadIdx.x);
  if (e >= call.experts) return;
  const ExpertRows rows = expert_rows(call, e);
  const int64_t row_bytes = call.k / 2, scale_bytes = scale_words(call.k) * kTileBlocks;
  groups.sizes[e] = cute::make_shape(rows.count, call.n, call.k);
  groups.a[e] = reinterpret_cast<const typename K::Code*>(call.a + rows.first * row_bytes);
  groups.b[e] = reinterpret_cast<const typename K::Code*>(call.b + int64_t{e} * call.n * row_bytes);
  groups.a_scale[e] = reinterpret_cast<const typename K::Scale*>(call.a_scale + rows.scale_row * scale_bytes);
  groups.b_scale[e] = reinterpret_cast<const typename K::Scale*>(call.b_scale + e * b_scale_slab(call.n, call.k));
  groups.alpha[e] = call.alphas + e;
  groups.out[e] = reinterpret_cast<std::remove_pointer_t<decltype(groups.out)>>(call.out + int64_t{rows.first} * call.n);
  groups.a_stride[e] = typename K::StrideA{call.k, _1{}, _0{}};
  groups.b_stride[e] = typename K::StrideB{call.k, _1{}, _0{}};
  groups.out_stride[e] = typename K::StrideD{call.n, _1{}, _0{}};
  const auto size = cute::make_shape(rows.count, call.n, call.k, 1);
  groups.a_layout[e] = K::Scales::tile_atom_to_shape_SFA(size);
  groups.b_layout[e] = K::Scales::tile_atom_to_shape_SFB(size);
}

template <class K>
typename K::Gemm::Arguments arguments_of(const Groups<K>& groups, int32_t experts, Form form) {
  typename K::Gemm::Arguments arguments{};
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
  arguments.problem_shape = {experts, groups.sizes, nullptr};
  arguments.mainloop = {groups.a,       groups.a_stride, groups.b,       groups.b_stride,
                        groups.a_scale, groups.a_layout, groups.b_scale, groups.b_layout};
  arguments.epilogue.ptr_C = nullptr;
  arguments.epilogue.dC = nullptr;
  arguments.epilogue.ptr_D = groups.out;
  arguments.epilogue.dD = groups.out_stride;
  auto& fusion = arguments.epilogue.thread;
  fusion.alpha_ptr_array = groups.alpha;
  fusion.dAlpha = {_0{}, _0{}, 1};
  fusion.beta = 0;
  cudaGetDevice(&arguments.hw_info.device_id);
  arguments.hw_info.sm_count =
      cutlass::KernelHardwareInfo::query_device_multiprocessor_count(arguments.hw_info.device_id);
  if constexpr (kDataCenter) {
    const dim3 cluster(form == Form::kTwoSm ? 2 : 1, 1, 1);
    arguments.hw_info.cluster_shape = cluster;
    arguments.hw_info.cluster_shape_fallback = cluster;
  }
  return arguments;
}

template <class C, class Output>
int64_t workspace_of(int32_t experts, Form form) {
  using K = Kernel<C, Output>;
  const Groups<K> groups(nullptr, experts);
  const auto arguments = arguments_of<K>(groups, experts, form);
  return reinterpret_cast<intptr_t>(groups.end) + static_cast<int64_t>(K::Gemm::get_workspace_size(arguments));
}

template <class C, class Output>
const char* run_form(const GemmArguments& call, Form form, void* workspace, cudaStream_t stream) {
  using K = Kernel<C, Output>;
  const Groups<K> groups(workspace, call.experts);
  const auto blocks = static_cast<uint32_t>(ceil_div(call.experts, kFillThreads));
  fill_groups_kernel<K><<<blocks, kFillThreads, 0, stream>>>(call, groups);
  const auto arguments = arguments_of<K>(groups, call.experts, form);
  typename K::Gemm gemm;
  cutlass::Status status = K::Gemm::can_implement(arguments);
  if (status == cutlass::Status::kSuccess) status = gemm.initialize(arguments, groups.end, stream);
  if (status == cutlass::Status::kSuccess) status = gemm.run(stream);
  return status == cutlass::Status::kSuccess ? nullptr : cutlass::cutlassGetStatusString(status);
}

template <class Output>
int64_t workspace(int32_t experts, Form form) {
#if NVFP4_GEMM_TARGET < 120
  return form == Form::kTwoSm ? workspace_of<Choice<Form::kTwoSm>, Output>(experts, form)
                              : workspace_of<Choice<Form::kOneSm>, Output>(experts, form);
#else
  return form == Form::kTwoSm ? -1 : workspace_of<SmallChoice, Output>(experts, form);
#endif
}

template <class Output>
const char* run(const GemmArguments& call, Form form, void* workspace, cudaStream_t stream) {
#if NVFP4_GEMM_TARGET < 120
  return form == Form::kTwoSm ? run_form<Choice<Form::kTwoSm>, Output>(call, form, workspace, stream)
                              : run_form<Choice<Form::kOneSm>, Output>(call, form, workspace, stream);
#else
  return form == Form::kTwoSm ? "compute capability 12.x has no pairs of multiprocessors"
                              : run_form<SmallChoice, Output>(call, form, workspace, stream);
#endif
}

}  // namespace nvfp4_moe::blackwell

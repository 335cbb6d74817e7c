// Kernels for programs of the tests: with names and parameters of PyTorch's, which rules know, and one whose
// operands nobody sees. What they do is told by host functions.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "softgpu/image.h"

namespace test_kernels {

using softgpu::Footprint;
using softgpu::TouchKind;

inline constexpr const char* fill_name =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_";
inline constexpr const char* add_name =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_";
inline constexpr const char* clamp_name =
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_49_GLOBAL__N__d2ba64fb_16_TensorCompare_cu_"
    "71e06f4e19launch_clamp_scalarERNS_18TensorIteratorBaseEN3c106ScalarES6_NS0_6detail11ClampLimitsEENKUlvE_"
    "clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_";
inline constexpr const char* threshold_name =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BinaryFunctorIfffZNS0_67_GLOBAL__N__06c19b41_28_"
    "ActivationThresholdKernel_cu_ef1a7132_1580621threshold_kernel_implIfEEvRNS_18TensorIteratorBaseET_S7_"
    "EUlffE_EESt5arrayIPcLm3EEEEviT0_T1_";

template <class T>
T parameter(const void* const* all, int which) {
  T value;
  std::memcpy(&value, all[which], sizeof value);
  return value;
}
template <int Count>
std::array<float*, Count> arrays(const void* const* p) {
  return parameter<std::array<float*, Count>>(p, 2);
}

// (int count, functor, std::array<char*, Count>): one output, then inputs.
template <int Count>
void touch_all(const void* const* p, Footprint& out) {
  const auto bytes = parameter<std::uint32_t>(p, 0) * sizeof(float);
  for (int i = 0; i < Count; ++i)
    out.touches.push_back({reinterpret_cast<std::uint64_t>(arrays<Count>(p)[i]), bytes,
                           i == 0 ? TouchKind::write : TouchKind::read});
  out.bytes = static_cast<double>(Count * bytes);
}
inline void run_fill(const void* const* p) {
  for (int i = 0; i < parameter<int>(p, 0); ++i) arrays<1>(p)[0][i] = parameter<float>(p, 1);
}
inline void run_add(const void* const* p) {
  const auto [out, a, b] = arrays<3>(p);
  for (int i = 0; i < parameter<int>(p, 0); ++i) out[i] = a[i] + parameter<float>(p, 1) * b[i];
}
inline void run_clamp(const void* const* p) {
  const auto [out, in] = arrays<2>(p);
  for (int i = 0; i < parameter<int>(p, 0); ++i) out[i] = in[i] > 0 ? in[i] : 0;
}
inline void run_threshold(const void* const* p) {
  const auto [out, x, gradient] = arrays<3>(p);
  for (int i = 0; i < parameter<int>(p, 0); ++i) out[i] = x[i] > 0 ? gradient[i] : 0;
}

// through_mask(~to, ~from, count): to[i] += from[i], by words in which nobody sees addresses.
inline float* unmasked(const void* const* p, int which) {
  return reinterpret_cast<float*>(~parameter<std::uint64_t>(p, which));
}
inline void touch_masked(const void* const* p, Footprint& out) {
  const auto bytes = parameter<std::uint64_t>(p, 2) * sizeof(float);
  out.touches.push_back({~parameter<std::uint64_t>(p, 0), bytes, TouchKind::read_write});
  out.touches.push_back({~parameter<std::uint64_t>(p, 1), bytes, TouchKind::read});
  out.bytes = static_cast<double>(3 * bytes);
}
inline void run_masked(const void* const* p) {
  for (std::uint64_t i = 0; i < parameter<std::uint64_t>(p, 2); ++i) unmasked(p, 0)[i] += unmasked(p, 1)[i];
}

// Bytes of the parameters of those with one, two or three arrays.
inline constexpr std::uint32_t one_array[] = {4, 4, 8}, two_arrays[] = {4, 24, 16},
                               three_arrays[] = {4, 4, 24}, binary_arrays[] = {4, 16, 24},
                               three_words[] = {8, 8, 8};

struct Clamp {
  double low = 0, high = 0;
  std::uint64_t limits = 1;
};
struct Threshold {
  double threshold, value;
};

}  // namespace test_kernels

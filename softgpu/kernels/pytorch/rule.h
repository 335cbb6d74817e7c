// What the rules for PyTorch's kernels share. Layouts are those of PyTorch 2.11 and 2.15; each names its
// source below aten/src/ATen. A rule that meets anything else declines.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "softgpu/hash.h"
#include "softgpu/image.h"

namespace softgpu::pytorch {

// Parameter i; its size was checked.
template <class T>
T parameter(const KernelLaunch& launch, std::uint32_t i) {
  T value;
  std::memcpy(&value, launch.params[i], sizeof value);
  return value;
}
inline constexpr std::uint32_t pointer = 8;  // its size
inline std::uint64_t address(const KernelLaunch& launch, std::uint32_t i) {
  return parameter<std::uint64_t>(launch, i);
}
// Of 4 or 8 bytes, and not negative.
inline std::uint64_t count(const KernelLaunch& launch, std::uint32_t i) {
  return launch.param_sizes[i] == 8 ? parameter<std::uint64_t>(launch, i)
                                    : parameter<std::uint32_t>(launch, i);
}
bool sizes_are(const KernelLaunch& launch, std::initializer_list<std::uint32_t> sizes);
// Of the parameters from `first` to before `end`, and no others.
std::uint64_t hash_of(const KernelLaunch& launch, std::uint32_t first, std::uint32_t end,
                      std::uint64_t more = 0);

// "a", "b<c, d>" of "f<a, b<c, d> >(…)".
std::vector<std::string_view> template_arguments(std::string_view name);
// The text up to the template's arguments: "f".
std::string_view template_name(std::string_view name);
// Bytes of a type of C++ by its name, 0: not known. And of the type that PyTorch computes it in
// (OpMathType.h).
std::uint32_t bytes_of(std::string_view type);
std::uint32_t bytes_to_compute(std::string_view type);
// Of what a pointer points to, by the pointer's type: "long const*".
std::uint32_t bytes_behind(std::string_view pointer);
// Of a class that stands for so many bytes, whatever they are: "…::OpaqueType<4u>".
std::uint32_t opaque_bytes(std::string_view type);
// A template's argument that is a small number.
std::optional<std::uint32_t> number(std::string_view text);

inline void touch(Footprint& out, std::uint64_t address, std::uint64_t bytes, TouchKind kind) {
  if (bytes > 0) out.touches.push_back({address, bytes, kind});
}

inline void touch_if_there(Footprint& out, std::uint64_t at, std::uint64_t bytes, TouchKind kind) {
  if (at != 0) touch(out, at, bytes, kind);
}

struct Dimension {
  std::uint64_t size, stride;  // in bytes
};
// Elements of so many bytes at all combinations of the dimensions' places. False: they lie over one another,
// or are in more than 65,536 pieces.
bool touch_strided(Footprint& out, std::uint64_t address, std::vector<Dimension> dimensions,
                   std::uint64_t bytes, TouchKind kind);

// cuda/detail/OffsetCalculator.cuh, OffsetCalculator<operands, uint32_t>
template <int operands>
struct Offsets {
  static constexpr int most = 25;
  std::int32_t dimensions;
  struct {
    std::uint32_t divisor, magic, shift;  // cuda/detail/IntegerDivider.cuh
  } sizes[most];
  std::uint32_t strides[most][operands];

  bool well() const {
    if (dimensions < 0 || dimensions > most) return false;
    for (int i = 0; i < dimensions; ++i)
      for (const std::uint32_t stride : strides[i])
        if (stride > INT32_MAX) return false;
    return true;
  }
  std::uint64_t elements() const {
    std::uint64_t product = 1;
    for (int i = 0; i < dimensions; ++i) product *= sizes[i].divisor;
    return product;
  }
  std::vector<Dimension> of(int operand) const {
    std::vector<Dimension> all;
    for (int i = 0; i < dimensions; ++i) all.push_back({sizes[i].divisor, strides[i][operand]});
    return all;
  }
  void add_to(Hash& hash) const {
    hash.add(static_cast<std::uint64_t>(dimensions));
    for (int i = 0; i < dimensions; ++i) {
      hash.add(sizes[i].divisor);
      for (const std::uint32_t stride : strides[i]) hash.add(stride);
    }
  }
};
static_assert(sizeof(Offsets<1>) == 404 && sizeof(Offsets<2>) == 504 && sizeof(Offsets<3>) == 604);

using Rule = bool(const KernelLaunch& launch, Footprint& out);
// elementwise.cpp
Rule vectorized_elementwise, strided_elementwise, casting_elementwise, indexed_elementwise;
// foreach.cpp, foreach_reduce.cpp, fused.cpp, reduce.cpp
Rule foreach, list_norm_results, update_scale, reduce;
// layers.cpp
Rule softmax_forward, softmax_backward, max_pool_forward, max_pool_backward, max_pool_forward_last,
    max_pool_backward_last, nll_loss_forward, nll_loss_backward;
// batch_norm.cpp
Rule batch_norm_statistics, batch_norm_running, batch_norm_forward, batch_norm_backward_sums,
    batch_norm_backward;
// rows.cpp
Rule layer_norm_forward, layer_norm_backward, layer_norm_weights, long_softmax_forward,
    register_softmax_forward, shared_softmax_forward, long_softmax_backward, gather_rows;
// concatenation.cpp, dropout.cpp, attention.cpp, flash.cpp
Rule concatenate, dropout, attention_forward, attention_backward, flash_forward, flash_products,
    flash_backward, flash_query_gradient;
// sort.cpp
Rule sort_histogram, sort_bin_sums, sort_pass, scan_start, compaction_start, scan, unique_keys;
// embedding.cpp
Rule few_rows_gradient, segment_parts, segment_part_offsets, segment_part_count, segment_part_sums,
    segment_sums;

}  // namespace softgpu::pytorch

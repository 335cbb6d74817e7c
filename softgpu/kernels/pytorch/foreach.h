// The tables that multi_tensor_apply_kernel(tables, functor, …) gets by value:
// native/cuda/MultiTensorApply.cuh. PyTorch up to 2.11 keeps them below 4 KiB; the wheels of 2.15 let them
// have 32.
#pragma once

#include <map>

#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {

inline constexpr std::uint64_t chunk_elements = 65536;

struct TableLayout {
  std::uint32_t lists, tensors;
  std::uint32_t more_bytes;  // of what belongs to each tensor besides its addresses and its size
  std::uint32_t blocks, index_bytes;
  bool first_tensor;  // its number among all of the call's

  std::uint32_t sizes_at() const { return lists * tensors * 8; }
  std::uint32_t more_at() const { return sizes_at() + tensors * 8; }
  std::uint32_t block_tensors_at() const { return more_at() + tensors * more_bytes; }
  std::uint32_t block_chunks_at() const { return block_tensors_at() + blocks * index_bytes; }
  std::uint32_t first_tensor_at() const { return block_chunks_at() + blocks * 4; }
  std::uint32_t bytes() const { return (first_tensor_at() + (first_tensor ? 4 : 0) + 7) / 8 * 8; }
};

// Chunks of a tensor that a launch works on: they follow one another.
struct Part {
  unsigned tensor;
  std::uint64_t first, end;        // chunks
  std::uint64_t begins, elements;  // of those chunks
  std::uint64_t all;               // of the tensor
};

class Tables {
 public:
  // By the type's name and the parameter's size; nothing where they are of none of these layouts.
  static std::optional<Tables> of(const KernelLaunch& launch, std::string_view type);

  std::uint32_t lists() const { return layout_.lists; }
  std::uint64_t address(std::uint32_t list, unsigned tensor) const {
    return get<std::uint64_t>((list * layout_.tensors + tensor) * 8);
  }
  // The tensor's scalar, or the address of its step.
  const std::byte* more(unsigned tensor) const {
    return at_ + layout_.more_at() + tensor * layout_.more_bytes;
  }
  std::uint32_t more_bytes() const { return layout_.more_bytes; }
  std::uint32_t first_tensor() const { return get<std::uint32_t>(layout_.first_tensor_at()); }
  // What each block works on, by tensor; nothing where it makes no sense.
  std::optional<std::vector<Part>> parts(unsigned blocks) const;

 private:
  Tables(const void* at, TableLayout layout) : at_(static_cast<const std::byte*>(at)), layout_(layout) {}
  template <class T>
  T get(std::uint32_t offset) const {
    T value;
    std::memcpy(&value, at_ + offset, sizeof value);
    return value;
  }
  unsigned tensor_of(unsigned block) const;

  const std::byte* at_;
  TableLayout layout_;
};

// foreach_reduce.cpp, fused.cpp: functors of lists with rules of their own. `functor`: its type.
using ListRule = bool(const KernelLaunch& launch, std::string_view functor, const Tables& tables,
                      const std::vector<Part>& parts, Footprint& out);
ListRule list_norms, fused_adam;

}  // namespace softgpu::pytorch

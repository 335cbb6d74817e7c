// How cuDNN and cuBLAS bring and launch their kernels: an Image handed to cuLibraryLoadData once per process,
// and a launch through cuLaunchKernel. A kernel is a type:
//
//   struct Scale {
//     static constexpr const char* name = "scale";
//     static constexpr std::size_t pointers = 1;
//     struct Args { std::int64_t count; float alpha; };  // trivially copyable, passed by value
//     static void footprint(const Pointers<1>& p, const Args& a, Footprint& out);
//     static void run(const Pointers<1>& p, const Args& a);
//   };
//
// Its parameters are `pointers` device pointers of 8 bytes each, then Args. Without `run` it is for timing
// mode alone.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "softgpu/cudart/driver.h"
#include "softgpu/image.h"

namespace softgpu {

template <std::size_t Count>
using Pointers = std::array<std::uint64_t, Count>;

template <class T = float>
T* device_memory(std::uint64_t address) {
  return reinterpret_cast<T*>(address);
}

namespace detail {

template <class Kernel>
constexpr bool computes = requires {
  &Kernel::run;
};

// Equal arguments are equal bytes then.
template <class Args>
void clear_padding([[maybe_unused]] Args& args) {
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&args);
#endif
}

template <class Kernel>
struct Thunk {
  using Args = typename Kernel::Args;
  static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= 3072, "kernel parameters end at 4 KiB");

  static constexpr std::array<std::uint32_t, Kernel::pointers + 1> sizes = [] {
    std::array<std::uint32_t, Kernel::pointers + 1> result{};
    result.fill(8);
    result.back() = sizeof(Args);
    return result;
  }();

  static Pointers<Kernel::pointers> pointers(const void* const* params) {
    Pointers<Kernel::pointers> result{};
    for (std::size_t i = 0; i < result.size(); ++i) std::memcpy(&result[i], params[i], 8);
    return result;
  }
  static Args args(const void* const* params) {
    Args result;
    std::memcpy(&result, params[Kernel::pointers], sizeof result);
    return result;
  }
  static void footprint(const void* const* params, Footprint& out) {
    Kernel::footprint(pointers(params), args(params), out);
  }
  static void run(const void* const* params) {
    if constexpr (computes<Kernel>) Kernel::run(pointers(params), args(params));
  }

  static inline std::atomic<CUkernel> handle{nullptr};
};

}  // namespace detail

template <class Kernel>
constexpr KernelEntry kernel_entry() {
  using Thunk = detail::Thunk<Kernel>;
  return {Kernel::name, Thunk::sizes.data(), static_cast<std::uint32_t>(Thunk::sizes.size()),
          &Thunk::footprint, detail::computes<Kernel> ? &Thunk::run : nullptr};
}

// A library's kernels, loaded at the first launch. One object of static duration per library.
class KernelLibrary {
 public:
  explicit constexpr KernelLibrary(const Image& image) : image_(image) {}

  CUresult load() {
    std::lock_guard lock(mutex_);
    if (library_) return CUDA_SUCCESS;
    const auto& driver = cudart::driver();
    if (!driver.LibraryLoadData || !driver.LibraryGetKernel) return CUDA_ERROR_NOT_SUPPORTED;
    return driver.LibraryLoadData(&library_, &image_, nullptr, nullptr, 0, nullptr, nullptr, 0);
  }

  // `work_items`: threads that a kernel for a GPU would start; it decides the size of the grid alone.
  template <class Kernel>
  CUresult launch(cudaStream_t stream, std::int64_t work_items, Pointers<Kernel::pointers> pointers,
                  typename Kernel::Args args) {
    std::atomic<CUkernel>& cached = detail::Thunk<Kernel>::handle;
    CUkernel kernel = cached.load(std::memory_order_acquire);
    if (!kernel) {
      if (CUresult result = load(); result != CUDA_SUCCESS) return result;
      CUresult result = cudart::driver().LibraryGetKernel(&kernel, library_, Kernel::name);
      if (result != CUDA_SUCCESS) return result;
      cached.store(kernel, std::memory_order_release);
    }
    detail::clear_padding(args);
    std::array<void*, Kernel::pointers + 1> params{};
    for (std::size_t i = 0; i < Kernel::pointers; ++i) params[i] = &pointers[i];
    params.back() = &args;
    constexpr std::int64_t block = 256;
    constexpr std::int64_t largest_grid = 65535;
    const std::int64_t blocks = (work_items + block - 1) / block;
    const auto grid = static_cast<unsigned>(blocks < 1 ? 1 : blocks > largest_grid ? largest_grid : blocks);
    return cudart::driver().LaunchKernel(reinterpret_cast<CUfunction>(kernel), grid, 1, 1, block, 1, 1, 0,
                                         stream, params.data(), nullptr);
  }

 private:
  const Image& image_;
  std::mutex mutex_;
  CUlibrary library_ = nullptr;
};

}  // namespace softgpu

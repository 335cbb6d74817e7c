#include <iterator>

#include "softgpu/cublas/matrix.h"
#include "softgpu/cublas/vector.h"

namespace softgpu::cublas {

KernelLibrary& kernels() {
  static constexpr KernelEntry entries[] = {
      kernel_entry<Gemm>(), kernel_entry<Gemv>(), kernel_entry<Geam>(), kernel_entry<Dgmm>(),
      kernel_entry<Axpy>(), kernel_entry<Scal>(), kernel_entry<Copy>(), kernel_entry<Reduce>(),
  };
  static constexpr Image image{.count = std::size(entries), .kernels = entries};
  static auto* const library = new KernelLibrary(image);  // outlives every user
  return *library;
}

}  // namespace softgpu::cublas

#include <iterator>

#include "softgpu/cublas/matrix.h"
#include "softgpu/cublas/mixed.h"
#include "softgpu/cublas/rotation.h"
#include "softgpu/cublas/vector.h"

namespace softgpu::cublas {

KernelLibrary& kernels() {
  static constexpr KernelEntry entries[] = {
      kernel_entry<Gemm<float>>(),         kernel_entry<Gemm<double>>(),
      kernel_entry<GemmBatched<float>>(),  kernel_entry<GemmBatched<double>>(),
      kernel_entry<Gemv<float>>(),         kernel_entry<Gemv<double>>(),
      kernel_entry<Ger<float>>(),          kernel_entry<Ger<double>>(),
      kernel_entry<Geam<float>>(),         kernel_entry<Geam<double>>(),
      kernel_entry<Dgmm<float>>(),         kernel_entry<Dgmm<double>>(),
      kernel_entry<Tbsv<float>>(),         kernel_entry<Tbsv<double>>(),
      kernel_entry<Axpy<float>>(),         kernel_entry<Axpy<double>>(),
      kernel_entry<Scal<float>>(),         kernel_entry<Scal<double>>(),
      kernel_entry<Copy<float>>(),         kernel_entry<Copy<double>>(),
      kernel_entry<Rotate<float>>(),       kernel_entry<Rotate<double>>(),
      kernel_entry<MakeRotation<float>>(), kernel_entry<MakeRotation<double>>(),
      kernel_entry<Reduce<float>>(),       kernel_entry<Reduce<double>>(),
      kernel_entry<MixedGemm>(),
  };
  static constexpr Image image{.count = std::size(entries), .kernels = entries};
  static auto* const library = new KernelLibrary(image);  // outlives every user
  return *library;
}

}  // namespace softgpu::cublas

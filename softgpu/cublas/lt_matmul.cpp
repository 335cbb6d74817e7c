// cublasLtMatmul and the choice of its algorithm, of which there is one.
#include <optional>

#include "softgpu/cublas/lt.h"
#include "softgpu/cublas/mixed.h"
#include "softgpu/cublas/operation.h"

namespace softgpu::cublas {
namespace {

KernelLibrary& lt_kernels() {
  static constexpr KernelEntry entries[] = {kernel_entry<MixedGemm>()};
  static constexpr Image image{.count = 1, .kernels = entries};
  static auto* const library = new KernelLibrary(image);  // outlives every user
  return *library;
}

struct Epilogue {
  Activation activation;
  bool bias;
};

std::optional<Epilogue> epilogue_of(std::uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return Epilogue{Activation::none, false};
    case CUBLASLT_EPILOGUE_BIAS:
      return Epilogue{Activation::none, true};
    case CUBLASLT_EPILOGUE_RELU:
      return Epilogue{Activation::relu, false};
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      return Epilogue{Activation::relu, true};
    case CUBLASLT_EPILOGUE_GELU:
      return Epilogue{Activation::gelu, false};
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return Epilogue{Activation::gelu, true};
    default:
      return std::nullopt;
  }
}

std::int64_t rows_of(const Layout& layout, std::int32_t operation) {
  return static_cast<std::int64_t>(operation == CUBLAS_OP_N ? layout.rows : layout.columns);
}
std::int64_t columns_of(const Layout& layout, std::int32_t operation) {
  return static_cast<std::int64_t>(operation == CUBLAS_OP_N ? layout.columns : layout.rows);
}

bool supported(const Layout& layout) {
  return layout.order == CUBLASLT_ORDER_COL && layout.plane_offset == 0 &&
         element_bytes(static_cast<std::int32_t>(layout.type)) != 0;
}

MixedGemm::Matrix matrix_of(const Layout& layout) {
  return {static_cast<std::int32_t>(layout.type), 0, layout.leading, layout.batch_stride};
}

// A product as its descriptors say; the scalars are still missing. `status` where they say something else.
struct Product {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  MixedGemm::Args args{};
  bool bias = false;
};

Product product_of(const MatmulDescriptor* matmul, const Layout* a, const Layout* b, const Layout* c,
                   const Layout* d) {
  if (!matmul || !a || !b || !c || !d) return {CUBLAS_STATUS_INVALID_VALUE};
  const auto epilogue = epilogue_of(matmul->epilogue);
  const bool device_scalars = matmul->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  const bool known_scalars = device_scalars || matmul->pointer_mode == CUBLASLT_POINTER_MODE_HOST;
  if (!epilogue || !known_scalars || !supported(*a) || !supported(*b) || !supported(*c) || !supported(*d) ||
      matmul->fill != CUBLAS_FILL_MODE_FULL || matmul->transpose_c != CUBLAS_OP_N ||
      element_bytes(matmul->scale_type) == 0) {
    return {CUBLAS_STATUS_NOT_SUPPORTED};
  }
  Product product;
  MixedGemm::Args& args = product.args;
  args.transpose_a = matmul->transpose_a != CUBLAS_OP_N;
  args.transpose_b = matmul->transpose_b != CUBLAS_OP_N;
  args.m = static_cast<std::int64_t>(d->rows);
  args.n = static_cast<std::int64_t>(d->columns);
  args.k = columns_of(*a, matmul->transpose_a);
  args.batch = d->batch_count;
  const bool fits =
      rows_of(*a, matmul->transpose_a) == args.m && rows_of(*b, matmul->transpose_b) == args.k &&
      columns_of(*b, matmul->transpose_b) == args.n && c->rows == d->rows && c->columns == d->columns &&
      a->batch_count == args.batch && b->batch_count == args.batch && c->batch_count == args.batch;
  if (!fits) return {CUBLAS_STATUS_INVALID_VALUE};
  args.a = matrix_of(*a);
  args.b = matrix_of(*b);
  args.c = matrix_of(*c);
  args.d = matrix_of(*d);
  args.activation = epilogue->activation;
  args.bias_type = matmul->bias_type < 0 ? static_cast<std::int32_t>(d->type) : matmul->bias_type;
  args.bias_stride = matmul->bias_stride;
  args.scalar_type = matmul->scale_type;
  args.scalars_on_device = device_scalars;
  product.bias = epilogue->bias;
  return product;
}

}  // namespace
}  // namespace softgpu::cublas

using namespace softgpu;
using namespace softgpu::cublas;

SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int wanted,
    cublasLtMatmulHeuristicResult_t results[], int* count) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!results || !count || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  *count = 0;
  const Product product = product_of(behind<MatmulDescriptor>(matmul), behind<Layout>(a), behind<Layout>(b),
                                     behind<Layout>(c), behind<Layout>(d));
  if (product.status != CUBLAS_STATUS_SUCCESS) return product.status;
  results[0] = {};
  results[0].wavesCount = 1;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                                             const void* alpha, const void* a,
                                             cublasLtMatrixLayout_t a_layout, const void* b,
                                             cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                                             cublasLtMatrixLayout_t c_layout, void* d,
                                             cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*,
                                             void*, std::size_t, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha || !beta || !d) return CUBLAS_STATUS_INVALID_VALUE;
  const auto* descriptor = behind<MatmulDescriptor>(matmul);
  Product product = product_of(descriptor, behind<Layout>(a_layout), behind<Layout>(b_layout),
                               behind<Layout>(c_layout), behind<Layout>(d_layout));
  if (product.status != CUBLAS_STATUS_SUCCESS) return product.status;
  MixedGemm::Args& args = product.args;
  if (args.m == 0 || args.n == 0 || args.batch == 0) return CUBLAS_STATUS_SUCCESS;
  if (!args.scalars_on_device) {
    args.alpha = host_scalar(alpha, args.scalar_type);
    args.beta = host_scalar(beta, args.scalar_type);
  }
  const bool device = args.scalars_on_device;
  return launched(lt_kernels().launch<MixedGemm>(
      stream, args.m * args.n * args.batch,
      {address(a), address(b), address(c), address(d), product.bias ? address(descriptor->bias) : 0,
       device ? address(alpha) : 0, device ? address(beta) : 0},
      args));
}

// Calls of cuBLASLt whose operands are fresh allocations: rows_cublaslt.py sees in the fake driver's log what
// each call makes resident, and what is copied for it. Each step's name goes to that log before the call.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr size_t mib = size_t{1} << 20;
constexpr float zero = 0, one = 1;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  std::exit(1);
}

void step(const std::string& name) {
  FILE* const log = std::fopen(std::getenv("FAKE_LOG"), "a");
  expect(log != nullptr, "FAKE_LOG can be written");
  std::fprintf(log, "step %s\n", name.c_str());
  std::fclose(log);
}

void* allocate(size_t bytes) {
  CUdeviceptr memory = 0;
  expect(cuMemAlloc_v2(&memory, bytes) == CUDA_SUCCESS, "cuMemAlloc_v2");
  return reinterpret_cast<void*>(memory);
}

// 1024 × columns floats: 4 KiB a column.
struct Layout {
  cublasLtMatrixLayout_t layout;

  Layout(uint64_t rows, uint64_t columns, int64_t leading, cudaDataType type = CUDA_R_32F) {
    cublasLtMatrixLayoutCreate(&layout, type, rows, columns, leading);
  }
  template <class Value>
  Layout& with(cublasLtMatrixLayoutAttribute_t attribute, Value value) {
    expect(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS,
           "a layout's attribute");
    return *this;
  }
};

struct Product {
  cublasLtMatmulDesc_t product;
  Layout a{1024, 1024, 1024}, b{1024, 1024, 1024}, c{1024, 1024, 1024}, d{1024, 1024, 1024};
  const void *alpha = &one, *beta = &zero;
  void *A = allocate(4 * mib), *B = allocate(4 * mib), *C = allocate(4 * mib), *D = allocate(4 * mib);
  void* workspace = nullptr;
  size_t workspace_bytes = 0;

  Product() { cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F); }
  template <class Value>
  Product& with(cublasLtMatmulDescAttributes_t attribute, Value value) {
    expect(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS,
           "a product's attribute");
    return *this;
  }
  void run(const std::string& name) {
    step(name);
    expect(cublasLtMatmul(nullptr, product, alpha, A, a.layout, B, b.layout, beta, C, c.layout, D, d.layout,
                          nullptr, workspace, workspace_bytes, nullptr) == CUBLAS_STATUS_SUCCESS,
           name);
  }
};

void matrices() {
  Product().run("beta_zero");
  Product blended;
  blended.beta = &one;
  blended.run("beta_one");
  Product in_place;
  in_place.beta = &one;
  in_place.C = in_place.D;
  in_place.run("in_place");
  Product half;  // 2 MiB each
  half.a = Layout(1024, 1024, 1024, CUDA_R_16F);
  half.b = half.d = half.a;
  half.run("half");
  Product space;
  space.workspace = allocate(6 * mib);
  space.workspace_bytes = 6 * mib;
  space.run("workspace");
}

void layouts() {
  // A has 512 rows that begin 2048 elements apart.
  Product rows;
  rows.A = allocate(4 * mib);
  rows.a = Layout(512, 1024, 2048).with(CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t{CUBLASLT_ORDER_ROW});
  rows.run("rows");
  // 2 matrices of 2 MiB; they begin 6 MiB apart.
  Product batch;
  batch.A = allocate(8 * mib);
  batch.a = Layout(512, 1024, 512)
                .with(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t{2})
                .with(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t{6 << 18});
  batch.run("batch");
  // 33 columns are two groups of 32; the second group's columns have 8192 rows of 4 bytes: 2 MiB in all.
  Product tiles;
  tiles.A = allocate(8 * mib);
  tiles.a = Layout(8192, 33, 8192 * 32).with(CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t{CUBLASLT_ORDER_COL32});
  tiles.run("tiles");
  // Half a byte an element: nobody measures that, so it is the whole allocation.
  Product unknown;
  unknown.A = allocate(8 * mib);
  unknown.a = Layout(1024, 1024, 1024, CUDA_R_4I);
  unknown.run("unknown");
}

void descriptor() {
  void* const bias = allocate(2 * mib);
  Product without;
  without.with(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias).run("bias_not_used");
  Product with;
  with.with(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)
      .with(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_BIAS})
      .run("bias");
  Product relu;
  relu.with(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, allocate(2 * mib))
      .with(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_RELU_AUX})
      .run("auxiliary");
  Product scaled;
  scaled.with(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, allocate(2 * mib))
      .with(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, allocate(2 * mib))
      .run("scales");
  Product device;
  device.alpha = allocate(2 * mib);
  device.beta = allocate(2 * mib);
  device.with(CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t{CUBLASLT_POINTER_MODE_DEVICE})
      .run("scalars_on_device");
  Product vector;
  vector.alpha = allocate(4 * mib);
  vector.beta = &zero;
  vector.with(CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t{CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST})
      .run("vector_and_host_scalar");
}

void transform() {
  cublasLtMatrixTransformDesc_t transform;
  cublasLtMatrixTransformDescCreate(&transform, CUDA_R_32F);
  Layout layout(1024, 1024, 1024);
  void *const A = allocate(4 * mib), *const B = allocate(4 * mib), *const C = allocate(4 * mib);
  const auto run = [&](const std::string& name, const float* beta) {
    step(name);
    expect(cublasLtMatrixTransform(nullptr, transform, &one, A, layout.layout, beta, B, layout.layout, C,
                                   layout.layout, nullptr) == CUBLAS_STATUS_SUCCESS,
           name);
  };
  run("transform", &zero);
  run("transform_blended", &one);
}

void inside_cublas() {
  auto* const memory = static_cast<float*>(allocate(12 * mib));
  step("gemm");
  expect(cublasSgemm_v2(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 1024, 1024, 1024, &one, memory, 1024, memory + mib,
                        1024, &zero, memory + 2 * mib, 1024) == CUBLAS_STATUS_SUCCESS,
         "cublasSgemm_v2");
}

// What becomes of a result that is away when it is computed again.
void effects() {
  Product product;
  // 28 MiB: all that there is.
  const auto make_room = [&] {
    Product others;
    others.a = Layout(1024, 2048, 1024), others.d = Layout(1024, 3072, 1024);
    others.A = allocate(8 * mib), others.D = allocate(12 * mib);
    others.beta = &one;
    others.run("room");
  };
  product.run("first");
  make_room();
  product.run("again");
  make_room();
  product.with(CUBLASLT_MATMUL_DESC_FILL_MODE, int32_t{CUBLAS_FILL_MODE_LOWER}).run("triangle");
}

}  // namespace

int main(int count, char** arguments) {
  CUcontext context;
  expect(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
             cuCtxSetCurrent(context) == CUDA_SUCCESS,
         "the driver starts");
  const std::string scenario = count == 2 ? arguments[1] : "";
  if (scenario == "matrices") return matrices(), 0;
  if (scenario == "layouts") return layouts(), 0;
  if (scenario == "descriptor") return descriptor(), 0;
  if (scenario == "transform") return transform(), 0;
  if (scenario == "inside_cublas") return inside_cublas(), 0;
  if (scenario == "effects") return effects(), 0;
  return 2;
}

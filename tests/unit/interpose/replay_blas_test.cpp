// Products of cuBLAS and copies and sets of the driver, kept and made again: see replay_test::again.
#include <cublasLt.h>
#include <cuda.h>

#include "interpose/cublas/replay.h"
#include "tests/unit/interpose/replay_support.h"

namespace replay_test {
namespace {

constexpr int m = 24, n = 17, k = 33, batch = 3;

struct Blas {
  cublasHandle_t it = nullptr;
  Blas() { EXPECT_EQ(cublasCreate(&it), CUBLAS_STATUS_SUCCESS); }
  ~Blas() { EXPECT_EQ(cublasDestroy(it), CUBLAS_STATUS_SUCCESS); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  operator cublasHandle_t() const { return it; }
};

struct Factors {
  Factor<float> one{1}, zero{0}, part{0.75F};
};

TEST(ReplayBlas, Product) {
  Memory memory;
  for (const bool blended : {false, true}) {
    again("cublasSgemm_v2", [&] {
      const Blas blas;
      const Factors factors;
      ASSERT_EQ(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &factors.one, memory.floats(k * m), k,
                            memory.floats(k * n), k, blended ? &factors.part : &factors.zero,
                            memory.floats(m * n), m),
                CUBLAS_STATUS_SUCCESS);
    });
  }
  again("cublasDgemm_v2_64", [&] {
    const Blas blas;
    const Factor<double> third(1.0 / 3), zero(0);
    ASSERT_EQ(cublasDgemm_64(blas, CUBLAS_OP_N, CUBLAS_OP_T, m, n, k, &third, memory.doubles(m * k), m,
                             memory.doubles(n * k), n, &zero, memory.doubles(m * n), m),
              CUBLAS_STATUS_SUCCESS);
  });
}

// Rows between the columns belong to somebody else.
TEST(ReplayBlas, ProductWithGaps) {
  Memory memory;
  again("cublasSgemm_v2", [&] {
    const Blas blas;
    const Factors factors;
    ASSERT_EQ(
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &factors.one, memory.floats((m + 3) * k), m + 3,
                    memory.floats((k + 1) * n), k + 1, &factors.zero, memory.floats((m + 2) * n), m + 2),
        CUBLAS_STATUS_SUCCESS);
  });
}

TEST(ReplayBlas, BatchedProducts) {
  Memory memory;
  again("cublasSgemmStridedBatched", [&] {
    const Blas blas;
    const Factors factors;
    ASSERT_EQ(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &factors.part,
                                        memory.floats(m * k * batch), m, m * k, memory.floats(k * n), k, 0,
                                        &factors.zero, memory.floats(m * n * batch), m, m * n, batch),
              CUBLAS_STATUS_SUCCESS);
  });
  // The first matrix is the last in memory: its pointer lies in the middle of its access.
  again("cublasSgemmStridedBatched", [&] {
    const Blas blas;
    const Factors factors;
    float* const last = memory.floats(m * k * batch) + m * k * (batch - 1);
    ASSERT_EQ(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &factors.part, last, m,
                                        -m * k, memory.floats(k * n), k, 0, &factors.zero,
                                        memory.floats(m * n * batch), m, m * n, batch),
              CUBLAS_STATUS_SUCCESS);
  });
  again("cublasGemmStridedBatchedEx", [&] {
    const Blas blas;
    const Factors factors;
    ASSERT_EQ(cublasGemmStridedBatchedEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &factors.one,
                                         memory.floats(m * k * batch), CUDA_R_32F, m, m * k,
                                         memory.floats(k * n * batch), CUDA_R_32F, k, k * n, &factors.part,
                                         memory.floats(m * n * batch), CUDA_R_32F, m, m * n, batch,
                                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
  });
}

TEST(ReplayBlas, TypedProducts) {
  Memory memory;
  again("cublasGemmEx", [&] {
    const Blas blas;
    const Factors factors;
    ASSERT_EQ(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &factors.part, memory.floats(m * k),
                           CUDA_R_32F, m, memory.floats(k * n), CUDA_R_32F, k, &factors.zero,
                           memory.floats(m * n), CUDA_R_32F, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
  });
  again("cublasSgemmEx", [&] {
    const Blas blas;
    const Factors factors;
    ASSERT_EQ(cublasSgemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &factors.part, memory.floats(m * k),
                            CUDA_R_32F, m, memory.floats(k * n), CUDA_R_32F, k, &factors.zero,
                            memory.floats(m * n), CUDA_R_32F, m),
              CUBLAS_STATUS_SUCCESS);
  });
}

TEST(ReplayBlas, MatrixTimesVector) {
  Memory memory;
  again("cublasSgemv_v2", [&] {
    const Blas blas;
    const Factors factors;
    ASSERT_EQ(cublasSgemv(blas, CUBLAS_OP_T, m, n, &factors.one, memory.floats(m * n), m,
                          memory.floats(2 * m), 2, &factors.part, memory.floats(n), -1),
              CUBLAS_STATUS_SUCCESS);
  });
}

// The workspace that the program gives is one of the operands; the softgpu's products leave it alone.
TEST(ReplayBlas, GivenWorkspaceAndMathMode) {
  Memory memory;
  constexpr std::size_t workspace_bytes = std::size_t{1} << 16;
  void* const workspace = memory.bytes(workspace_bytes);
  const auto program = [&](cublasMath_t math) {
    const Blas blas;
    const Factors factors;
    ASSERT_EQ(cublasSetMathMode(blas, math), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasSetWorkspace(blas, workspace, workspace_bytes), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &factors.one, memory.floats(m * k), m,
                          memory.floats(k * n), k, &factors.zero, memory.floats(m * n), m),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(ops().back().accesses.size(), 4U);
  };
  again("cublasSgemm_v2", [&] { program(CUBLAS_TF32_TENSOR_OP_MATH); });
  again("cublasSgemm_v2", [&] { program(CUBLAS_DEFAULT_MATH); });
}

// Products of the software GPU do not depend on settings, so this looks at our own handle.
TEST(ReplayBlas, OurHandleIsSetAsTheProgramsWas) {
  using namespace pooch;
  using namespace pooch::interpose;
  Memory memory;
  constexpr std::size_t workspace_bytes = std::size_t{1} << 16;
  auto* const workspace = static_cast<unsigned char*>(memory.bytes(2 * workspace_bytes));
  const auto address = [](const void* of) { return Address{reinterpret_cast<std::uintptr_t>(of)}; };
  const Access access{address(workspace), workspace_bytes, Effect::scratch};
  const Scope scope;
  const Keeping keeping(scope, {&access, 1});
  const Blas plain, set;
  ASSERT_EQ(cublasSetMathMode(set, CUBLAS_TF32_TENSOR_OP_MATH), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSetWorkspace(set, workspace, workspace_bytes), CUBLAS_STATUS_SUCCESS);
  KeptCublasHandle first(keeping, set), second(keeping, plain);
  ASSERT_TRUE(first.kept() && second.kept());

  const auto expect = [&](KeptCublasHandle& kept, Address moved_to, cublasMath_t math, int status) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    const interpose::Run run{{&moved_to, 1}, StreamHandle{reinterpret_cast<std::uintptr_t>(stream)}};
    EXPECT_EQ(kept.prepare(run), status);
    const cublasHandle_t own = kept.in(run);
    EXPECT_TRUE(own != plain.it && own != set.it);
    cublasMath_t math_now{};
    cudaStream_t stream_now = nullptr;
    EXPECT_EQ(cublasGetMathMode(own, &math_now), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasGetStream(own, &stream_now), CUBLAS_STATUS_SUCCESS);
    EXPECT_TRUE(math_now == math && stream_now == stream);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  };
  expect(first, address(workspace + workspace_bytes), CUBLAS_TF32_TENSOR_OP_MATH, CUBLAS_STATUS_SUCCESS);
  // A workspace must be aligned: this one is at its new place.
  expect(first, address(workspace + 4), CUBLAS_TF32_TENSOR_OP_MATH, CUBLAS_STATUS_INVALID_VALUE);
  expect(second, address(workspace + 4), CUBLAS_DEFAULT_MATH, CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(first.in({}), second.in({})) << "one handle for all";
}

TEST(ReplayBlas, NoRecipeWhereAHandleLeavesSumsToChanceOrFactorsLieOnTheDevice) {
  Memory memory;
  const Blas blas;
  const Factors factors;
  float *const a = memory.floats(m * k), *const b = memory.floats(k * n), *const to = memory.floats(m * n);
  never_again("cublasSgemm_v2", [&] {
    ASSERT_EQ(cublasSetAtomicsMode(blas, CUBLAS_ATOMICS_ALLOWED), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &factors.one, a, m, b, k, &factors.zero, to, m),
        CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasSetAtomicsMode(blas, CUBLAS_ATOMICS_NOT_ALLOWED), CUBLAS_STATUS_SUCCESS);
  });
  never_again("cublasSgemm_v2", [&] {
    ASSERT_EQ(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, memory.floats(1), a, m, b, k,
                          memory.floats(1), to, m),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST), CUBLAS_STATUS_SUCCESS);
  });
  never_again("cublasSaxpy_v2",
              [&] { ASSERT_EQ(cublasSaxpy(blas, m, &factors.one, a, 1, b, 1), CUBLAS_STATUS_SUCCESS); });
}

// --- cuBLASLt, by replay_extra.cpp
template <class Descriptor, class Set, class Name, class Value>
void give(Set set, Descriptor descriptor, Name name, Value value) {
  EXPECT_EQ(set(descriptor, name, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
}

struct Layout {
  cublasLtMatrixLayout_t it = nullptr;
  Layout(std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&it, CUDA_R_32F, rows, columns, leading), CUBLAS_STATUS_SUCCESS);
    give(cublasLtMatrixLayoutSetAttribute, it, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  }
  ~Layout() { EXPECT_EQ(cublasLtMatrixLayoutDestroy(it), CUBLAS_STATUS_SUCCESS); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
};

struct LtProduct {
  cublasLtMatmulDesc_t it = nullptr;
  Layout a{m, k, m + 1}, b{k, n, k}, d{m, n, m};
  Factors factors;
  cublasLtMatmulAlgo_t algorithm{{0, 1, 2, 3, 4, 5, 6, 7}};
  LtProduct() {
    EXPECT_EQ(cublasLtMatmulDescCreate(&it, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    with(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, std::int32_t{60});
    with(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    with(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{128});
  }
  ~LtProduct() {
    algorithm = {};
    EXPECT_EQ(cublasLtMatmulDescDestroy(it), CUBLAS_STATUS_SUCCESS);
  }
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;
  template <class Value>
  void with(cublasLtMatmulDescAttributes_t name, Value value) {
    give(cublasLtMatmulDescSetAttribute, it, name, value);
  }
  void run(Memory& memory, bool blended) {
    float* const to = memory.floats(m * n);
    const float* const beta = blended ? &factors.part : &factors.zero;
    EXPECT_EQ(cublasLtMatmul(nullptr, it, &factors.one, memory.floats((m + 1) * k), a.it,
                             memory.floats(k * n), b.it, beta, to, d.it, to, d.it,
                             blended ? &algorithm : nullptr, memory.bytes(4096), 4096, nullptr),
              CUBLAS_STATUS_SUCCESS);
  }
};

TEST(ReplayLt, Product) {
  Memory memory;
  again("cublasLtMatmul", [&] { LtProduct().run(memory, /*blended=*/false); });
  again("cublasLtMatmul", [&] { LtProduct().run(memory, /*blended=*/true); });
}

// Their addresses lie in the descriptor.
TEST(ReplayLt, OperandsInTheDescriptor) {
  Memory memory;
  again("cublasLtMatmul", [&] {
    float *const bias = memory.floats(m), *const scale = memory.floats(1), *const largest = memory.floats(1);
    own(bias, m * sizeof(float)), own(scale, sizeof(float)), own(largest, sizeof(float));
    LtProduct product;
    product.with(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_BIAS});
    product.with(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    product.with(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale);
    product.with(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, largest);
    product.run(memory, /*blended=*/false);
    EXPECT_EQ(ops().back().accesses.size(), 7U);
    forget_owned();
  });
}

// Small allocations are the driver's, and may be gone or moved along all the same.
TEST(ReplayLt, AnOperandOfUnknownSizeMayLieInMemoryOfTheDrivers) {
  Memory memory;
  again("cublasLtMatmul", [&] {
    float* const bias = memory.floats(m);
    know(bias, m * sizeof(float));
    LtProduct product;
    product.with(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_BIAS});
    product.with(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    product.run(memory, /*blended=*/false);
    EXPECT_EQ(ops().back().accesses.size(), 5U);
    forget_owned();
  });
}

TEST(ReplayLt, NoRecipeForWhatCannotBeCopied) {
  Memory memory;
  never_again("cublasLtMatmul", [&] {
    LtProduct product;
    product.with(CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR, static_cast<void*>(&product));
    product.run(memory, /*blended=*/false);
  });
  never_again("cublasLtMatmul", [&] {
    LtProduct product;
    product.with(CUBLASLT_MATMUL_DESC_POINTER_MODE,
                 std::int32_t{CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST});
    product.run(memory, /*blended=*/false);
  });
}

// --- the driver
CUdeviceptr address(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

TEST(ReplayDriver, LinearCopies) {
  Memory memory;
  const auto copy = [&](const char* function, auto&& call) {
    again(function, [&] {
      float *const from = memory.floats(1000), *const to = memory.floats(1000);
      own(from, 4000), own(to, 4000);
      ASSERT_EQ(call(address(to), address(from), std::size_t{4000}), CUDA_SUCCESS);
      forget_owned();
    });
  };
  copy("cuMemcpyDtoD_v2", [](auto... a) { return cuMemcpyDtoD(a...); });
  copy("cuMemcpyDtoDAsync_v2", [](auto... a) { return cuMemcpyDtoDAsync(a..., nullptr); });
  copy("cuMemcpy", [](auto... a) { return cuMemcpy(a...); });
  copy("cuMemcpyAsync", [](auto... a) { return cuMemcpyAsync(a..., nullptr); });
}

template <class Copy>
Copy box(const float* from, float* to) {
  Copy copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = address(from), copy.dstDevice = address(to);
  copy.srcPitch = 80, copy.dstPitch = 64;
  copy.srcXInBytes = 16, copy.srcY = 3, copy.dstXInBytes = 8, copy.dstY = 1;
  copy.WidthInBytes = 40, copy.Height = 5;
  return copy;
}

// Boxes that begin far after the pointers.
TEST(ReplayDriver, PitchedCopies) {
  Memory memory;
  const auto copy = [&](const char* function, auto&& call) {
    again(function, [&] {
      float *const from = memory.floats(2000), *const to = memory.floats(2000);
      own(from, 8000), own(to, 8000);
      ASSERT_EQ(call(from, to), CUDA_SUCCESS);
      forget_owned();
    });
  };
  copy("cuMemcpy2D_v2", [](const float* from, float* to) {
    const auto description = box<CUDA_MEMCPY2D>(from, to);
    return cuMemcpy2D(&description);
  });
  copy("cuMemcpy2DAsync_v2", [](const float* from, float* to) {
    const auto description = box<CUDA_MEMCPY2D>(from, to);
    return cuMemcpy2DAsync(&description, nullptr);
  });
  copy("cuMemcpy3DAsync_v2", [](const float* from, float* to) {
    auto description = box<CUDA_MEMCPY3D>(from, to);
    description.Depth = 2, description.srcHeight = 10, description.dstHeight = 9, description.srcZ = 1;
    return cuMemcpy3DAsync(&description, nullptr);
  });
}

TEST(ReplayDriver, Sets) {
  Memory memory;
  const auto set = [&](const char* function, auto&& call) {
    again(function, [&] { ASSERT_EQ(call(address(memory.floats(600))), CUDA_SUCCESS); });
  };
  set("cuMemsetD8_v2", [](CUdeviceptr to) { return cuMemsetD8(to, 7, 2000); });
  set("cuMemsetD16Async", [](CUdeviceptr to) { return cuMemsetD16Async(to, 777, 1000, nullptr); });
  set("cuMemsetD32_v2", [](CUdeviceptr to) { return cuMemsetD32(to, 77777, 500); });
  set("cuMemsetD32Async", [](CUdeviceptr to) { return cuMemsetD32Async(to, 77777, 500, nullptr); });
  set("cuMemsetD2D32Async", [](CUdeviceptr to) { return cuMemsetD2D32Async(to, 128, 5, 20, 10, nullptr); });
  set("cuMemsetD2D8_v2", [](CUdeviceptr to) { return cuMemsetD2D8(to, 128, 5, 20, 10); });
}

TEST(ReplayDriver, CopiesOfTheHostsHaveNoRecipe) {
  Memory memory;
  std::vector<float> host(100);
  float* const device = memory.floats(100);
  own(device, 400);
  snapshots(false);
  never_again("cuMemcpyHtoD_v2",
              [&] { ASSERT_EQ(cuMemcpyHtoD(address(device), host.data(), 400), CUDA_SUCCESS); });
  never_again("cuMemcpy", [&] {
    ASSERT_EQ(cuMemcpy(address(device), reinterpret_cast<CUdeviceptr>(host.data()), 400), CUDA_SUCCESS);
  });
  snapshots(true);
  forget_owned();
}

}  // namespace
}  // namespace replay_test

// How cuBLASLt's descriptors are kept for a replay. Only the generated wrappers of that library use this;
// they include its header, cublasLt.h, before.
#pragma once

#include <array>

#include "interpose/cublas/facts.h"
#include "interpose/cublas/lt_facts.h"
#include "interpose/cublas/replay.h"

namespace pooch::interpose {
namespace lt {

inline constinit Real<decltype(::cublasLtCreate)> create{Library::cublaslt, "cublasLtCreate"};
inline constinit Real<decltype(::cublasLtMatrixLayoutCreate)> create_layout{Library::cublaslt,
                                                                            "cublasLtMatrixLayoutCreate"};
inline constinit Real<decltype(::cublasLtMatrixLayoutDestroy)> destroy_layout{Library::cublaslt,
                                                                              "cublasLtMatrixLayoutDestroy"};
inline constinit Real<decltype(::cublasLtMatrixLayoutSetAttribute)> set_of_layout{
    Library::cublaslt, "cublasLtMatrixLayoutSetAttribute"};
inline constinit Real<decltype(::cublasLtMatmulDescCreate)> create_matmul{Library::cublaslt,
                                                                          "cublasLtMatmulDescCreate"};
inline constinit Real<decltype(::cublasLtMatmulDescDestroy)> destroy_matmul{Library::cublaslt,
                                                                            "cublasLtMatmulDescDestroy"};
inline constinit Real<decltype(::cublasLtMatmulDescSetAttribute)> set_of_matmul{
    Library::cublaslt, "cublasLtMatmulDescSetAttribute"};

struct MatmulAttribute {
  cublasLtMatmulDescAttributes_t name;
  std::size_t bytes;
};
// Beside the two that the descriptor is made with. The header says how large each is.
inline constexpr MatmulAttribute plain_attributes[] = {
    {CUBLASLT_MATMUL_DESC_POINTER_MODE, 4},
    {CUBLASLT_MATMUL_DESC_TRANSA, 4},
    {CUBLASLT_MATMUL_DESC_TRANSB, 4},
    {CUBLASLT_MATMUL_DESC_TRANSC, 4},
    {CUBLASLT_MATMUL_DESC_FILL_MODE, 4},
    {CUBLASLT_MATMUL_DESC_EPILOGUE, 4},
    {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 8},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 8},
    {CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, 8},
    {CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 4},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, 4},
    {CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1},
    {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4},
    {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_C_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_D_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, 4},
};
inline constexpr cublasLtMatmulDescAttributes_t pointer_attributes[] = {
    CUBLASLT_MATMUL_DESC_BIAS_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
    CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_C_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_AMAX_D_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER,
    CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER,
};

// An attribute that this version does not know has its default in the clone too.
inline bool copy_attribute(const Scope& scope, cublasLtMatmulDesc_t from, cublasLtMatmulDesc_t to,
                           const MatmulAttribute& attribute) {
  std::array<std::byte, 8> value{};
  std::size_t written = 0;
  auto* const get = of_matmul.get_if_present(scope);
  auto* const set = set_of_matmul.get_if_present(scope);
  if (get == nullptr || set == nullptr) return false;
  return get(from, attribute.name, value.data(), attribute.bytes, &written) != CUBLAS_STATUS_SUCCESS ||
         set(to, attribute.name, value.data(), attribute.bytes) == CUBLAS_STATUS_SUCCESS;
}

// A descriptor of a product, with the addresses inside of it as operands. No recipe where factors lie in
// device memory, or the descriptor names another one (emulation), which has no query for all that it says.
class KeptMatmul : public KeptArgument {
 public:
  KeptMatmul(const Keeping& keeping, cublasLtMatmulDesc_t from)
      : pointers_(pointers_of(keeping, from, std::make_index_sequence<std::size(pointer_attributes)>())) {
    std::int32_t compute = 0;
    const Scalars scalars = scalars_of(keeping.scope, from);
    const void* emulation = nullptr;
    ask(keeping.scope, of_matmul, from, CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR, emulation);
    auto* const make = create_matmul.get_if_present(keeping.scope);
    if (make == nullptr || !scalars.known || scalars.mode != CUBLASLT_POINTER_MODE_HOST ||
        emulation != nullptr ||
        !ask(keeping.scope, of_matmul, from, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute) ||
        make(&clone_, static_cast<cublasComputeType_t>(compute), static_cast<cudaDataType>(scalars.type)) !=
            CUBLAS_STATUS_SUCCESS)
      return;
    kept_ = true;
    for (const MatmulAttribute& attribute : plain_attributes)
      kept_ = kept_ && copy_attribute(keeping.scope, from, clone_, attribute);
  }
  KeptMatmul(KeptMatmul&& from) noexcept
      : clone_(std::exchange(from.clone_, nullptr)), kept_(from.kept_), pointers_(from.pointers_) {}
  ~KeptMatmul() {
    const Scope scope;
    auto* const destroy = destroy_matmul.get_if_present(scope);
    if (clone_ != nullptr && destroy != nullptr) (void)destroy(clone_);
  }

  bool kept() const { return kept_; }
  int prepare(const Run& run) {
    for (std::size_t i = 0; i < pointers_.size(); ++i) {
      void* const pointer = pointers_[i].in(run);
      if (pointer == nullptr) continue;  // as it is without
      const cublasStatus_t status =
          set_of_matmul.known()(clone_, pointer_attributes[i], &pointer, sizeof pointer);
      if (status != CUBLAS_STATUS_SUCCESS) return status;
    }
    return 0;
  }
  cublasLtMatmulDesc_t in(const Run&) const { return clone_; }

 private:
  using Pointers = std::array<KeptOperand, std::size(pointer_attributes)>;

  template <std::size_t... I>
  static Pointers pointers_of(const Keeping& keeping, cublasLtMatmulDesc_t from, std::index_sequence<I...>) {
    return {keep_operand(keeping, lt_pointer(keeping.scope, from, pointer_attributes[I]))...};
  }

  cublasLtMatmulDesc_t clone_ = nullptr;
  bool kept_ = false;
  Pointers pointers_;
};

}  // namespace lt

inline void destroy_descriptor(cublasLtMatrixLayout_t layout) {
  const Scope scope;
  if (auto* const destroy = lt::destroy_layout.get_if_present(scope)) (void)destroy(layout);
}

// Strided layouts only: a recipe cannot follow arrays of pointers.
inline KeptDescriptor<cublasLtMatrixLayout_t> keep_descriptor(const Keeping& keeping,
                                                              cublasLtMatrixLayout_t from) {
  cublasLtMatrixLayout_t clone = nullptr;
  if (from == nullptr) return {nullptr, destroy_descriptor, true};
  lt::Layout read;
  auto* const make = lt::create_layout.get_if_present(keeping.scope);
  auto* const set = lt::set_of_layout.get_if_present(keeping.scope);
  if (make == nullptr || set == nullptr || !lt::read_layout(keeping.scope, from, read) ||
      read.batch_mode != CUBLASLT_BATCH_MODE_STRIDED ||
      make(&clone, static_cast<cudaDataType>(read.type), read.rows, read.columns, read.leading) !=
          CUBLAS_STATUS_SUCCESS)
    return {nullptr, destroy_descriptor, false};
  const auto give = [&](cublasLtMatrixLayoutAttribute_t name, auto value) {
    return set(clone, name, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
  };
  const bool same = give(CUBLASLT_MATRIX_LAYOUT_ORDER, read.order) &&
                    give(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, read.batch_count) &&
                    give(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, read.batch_stride) &&
                    give(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, read.plane_offset);
  return {clone, destroy_descriptor, same};
}

inline lt::KeptMatmul keep_descriptor(const Keeping& keeping, cublasLtMatmulDesc_t from) {
  return {keeping, from};
}

// alpha and beta on the host; KeptMatmul refuses the others.
inline KeptScalar keep_factor(const Keeping& keeping, const void* factor, cublasLtMatmulDesc_t matmul) {
  const lt::Scalars scalars = lt::scalars_of(keeping.scope, matmul);
  const bool host = scalars.known && scalars.mode == CUBLASLT_POINTER_MODE_HOST;
  return keep_scalar(keeping, factor,
                     host ? typed(static_cast<cudaDataType>(scalars.type)) : Extent::unknown());
}

// The choice of an algorithm is a value; none: the library chooses, for the same product the same one.
struct KeptAlgorithm : KeptArgument {
  cublasLtMatmulAlgo_t algorithm;
  bool chosen;
  const cublasLtMatmulAlgo_t* in(const Run&) const { return chosen ? &algorithm : nullptr; }
};
inline KeptAlgorithm keep_algorithm(const cublasLtMatmulAlgo_t* algorithm) {
  KeptAlgorithm kept{};
  kept.chosen = algorithm != nullptr;
  if (kept.chosen) kept.algorithm = *algorithm;
  return kept;
}

// Our own handle: one per process, made with the first call that is kept. It has no settings.
struct KeptCublasLtHandle : KeptArgument {
  cublasLtHandle_t own;
  bool kept() const { return own != nullptr; }
  cublasLtHandle_t in(const Run&) const { return own; }
};
inline KeptCublasLtHandle keep_handle(const Keeping& keeping, cublasLtHandle_t) {
  static const cublasLtHandle_t own = [&] {
    cublasLtHandle_t made = nullptr;
    auto* const create = lt::create.get_if_present(keeping.scope);
    return create != nullptr && create(&made) == CUBLAS_STATUS_SUCCESS ? made : nullptr;
  }();
  KeptCublasLtHandle handle{};
  handle.own = own;
  return handle;
}

}  // namespace pooch::interpose

#include "interpose/cudnn/replay_backend.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "interpose/hooks/libraries.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cudnn, cudnnBackendCreateDescriptor);
POOCH_REAL(cudnn, cudnnBackendSetAttribute);
POOCH_REAL(cudnn, cudnnBackendFinalize);
POOCH_REAL(cudnn, cudnnBackendExecute);
POOCH_REAL(cudnn, cudnnBackendDestroyDescriptor);

constinit std::atomic<std::uint64_t> plans{0};

// A tensor's pointer: into device memory, or to a value in host memory, of which a copy is given.
struct KeptPointer {
  KeptOperand operand;
  std::optional<KeptScalar> value;

  void* in(const Run& run) const {
    if (!value) return operand.in(run);
    const void* const bytes = value->in(run).memory;
    return const_cast<void*>(bytes);
  }
};

// A variant pack of our own, for one execution.
class OwnPack {
 public:
  explicit OwnPack(const Scope& scope) : scope_(scope) {
    status_ = real_cudnnBackendCreateDescriptor.get(scope)(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack_);
  }
  ~OwnPack() {
    if (pack_ != nullptr) (void)real_cudnnBackendDestroyDescriptor.get(scope_)(pack_);
  }
  OwnPack(const OwnPack&) = delete;
  OwnPack& operator=(const OwnPack&) = delete;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
           const void* elements) {
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    status_ = real_cudnnBackendSetAttribute.get(scope_)(pack_, name, type, static_cast<std::int64_t>(count),
                                                        elements);
  }
  cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan) {
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = real_cudnnBackendFinalize.get(scope_)(pack_);
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = real_cudnnBackendExecute.get(scope_)(handle, plan, pack_);
    return status_;
  }

 private:
  const Scope& scope_;
  cudnnStatus_t status_;
  cudnnBackendDescriptor_t pack_ = nullptr;
};

class KeptExecution final : public Replay {
 public:
  KeptExecution(KeptCudnnHandle handle, std::shared_ptr<BackendPlan> plan, std::size_t operands,
                std::vector<std::int64_t> uids, std::vector<KeptPointer> pointers, KeptOperand workspace)
      : handle_(handle),
        plan_(std::move(plan)),
        operands_(operands),
        uids_(std::move(uids)),
        pointers_(std::move(pointers)),
        workspace_(workspace) {}

  Status run(std::span<const Address> operands, StreamHandle stream) override {
    constexpr const char* function = "cudnnBackendExecute";
    if (operands.size() != operands_) return wrong_operands(function, operands.size(), operands_);
    const ReplayGuard guard;
    const Scope scope;
    const Run run{operands, stream};
    if (const int status = handle_.prepare(run); status != 0) return replay_status(function, status);
    std::vector<void*> pointers;
    for (const KeptPointer& pointer : pointers_) pointers.push_back(pointer.in(run));
    void* const workspace = workspace_.in(run);
    OwnPack pack(scope);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids_.size(), uids_.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.size(), pointers.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    const std::lock_guard lock(plan_->mutex);
    if (!plan_->usable) return replay_status(function, CUDNN_STATUS_NOT_INITIALIZED);
    return replay_status(function, pack.execute(handle_.in(run), plan_->descriptor));
  }

 private:
  KeptCudnnHandle handle_;
  std::shared_ptr<BackendPlan> plan_;
  std::size_t operands_;
  std::vector<std::int64_t> uids_;
  std::vector<KeptPointer> pointers_;
  KeptOperand workspace_;
};

}  // namespace

BackendPlan::BackendPlan(cudnnBackendDescriptor_t of, BackendGraph what, Extent needed)
    : descriptor(of), graph(std::move(what)), workspace(needed), serial(++plans) {}

BackendPlan::~BackendPlan() {
  const Scope scope;
  auto* const destroy = real_cudnnBackendDestroyDescriptor.get_if_present(scope);
  if (usable && destroy != nullptr) (void)destroy(descriptor);
}

std::unique_ptr<Replay> keep_execution(const Keeping& keeping, cudnnHandle_t handle,
                                       const std::shared_ptr<BackendPlan>& plan, const BackendShadow& pack) {
  if (!plan->graph.replayable || real_cudnnBackendCreateDescriptor.get(keeping.scope) == nullptr ||
      real_cudnnBackendSetAttribute.get(keeping.scope) == nullptr ||
      real_cudnnBackendFinalize.get(keeping.scope) == nullptr ||
      real_cudnnBackendExecute.get(keeping.scope) == nullptr ||
      real_cudnnBackendDestroyDescriptor.get(keeping.scope) == nullptr)
    return nullptr;
  KeptCudnnHandle own = keep_handle(keeping, handle);
  auto uids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto given = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (!own.kept() || uids.size() != given.size()) return nullptr;
  std::vector<KeptPointer> pointers;
  for (std::size_t i = 0; i < uids.size(); ++i) {
    KeptPointer pointer{keep_operand(keeping, given[i]), std::nullopt};
    const auto tensor = std::ranges::find(plan->graph.tensors, uids[i], &BackendTensor::uid);
    if (tensor != plan->graph.tensors.end() && tensor->value_bytes > 0) {
      pointer.value.emplace(given[i], tensor->value_bytes);
      if (!pointer.value->kept()) return nullptr;
    }
    pointers.push_back(pointer);
  }
  const auto workspace = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  return std::make_unique<KeptExecution>(own, plan, keeping.accesses.size(), std::move(uids),
                                         std::move(pointers), keep_operand(keeping, workspace));
}

}  // namespace pooch::interpose

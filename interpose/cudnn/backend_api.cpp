// cuDNN's backend (graph) API. Setting, finalizing and reading attributes is noted (backend_shadow.h), so
// that an execution says what it does to which memory, as the legacy calls do.
#include <algorithm>

#include "interpose/cudnn/facts.h"
#include "interpose/cudnn/replay_backend.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/inside.h"
#include "interpose/sessions/sessions.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cudnn, cudnnBackendCreateDescriptor);
POOCH_REAL(cudnn, cudnnBackendDestroyDescriptor);
POOCH_REAL(cudnn, cudnnBackendInitialize);
POOCH_REAL(cudnn, cudnnBackendFinalize);
POOCH_REAL(cudnn, cudnnBackendSetAttribute);
POOCH_REAL(cudnn, cudnnBackendGetAttribute);
POOCH_REAL(cudnn, cudnnBackendExecute);

constexpr auto missing = CUDNN_STATUS_NOT_INITIALIZED;

// The graph that a plan executes; null where the plan came from elsewhere, as text.
BackendPart graph_of(const BackendShadow& plan) {
  const BackendPart configuration = plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const BackendPart engine =
      configuration == nullptr ? nullptr : configuration->part(CUDNN_ATTR_ENGINECFG_ENGINE);
  return engine == nullptr ? nullptr : engine->part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}

Extent workspace_of(const Scope& scope, cudnnBackendDescriptor_t plan) {
  auto* const get = real_cudnnBackendGetAttribute.get(scope);
  std::int64_t bytes = 0;
  if (get == nullptr || get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, nullptr,
                            &bytes) != CUDNN_STATUS_SUCCESS)
    return Extent::unknown();
  return {bytes};
}

void note_finalized(const Scope& scope, cudnnBackendDescriptor_t descriptor) {
  const BackendPart shadow = shadow_of(descriptor);
  if (shadow == nullptr || shadow->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return;
  shadow_planned(descriptor, std::make_shared<BackendPlan>(descriptor, describe_graph(graph_of(*shadow)),
                                                           workspace_of(scope, descriptor)));
}

// Shapes of a pack's own make a plan's extents wrong.
bool overrides_shapes(const BackendShadow& pack) {
  return pack.find(CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS) != nullptr;
}

void add_operands(CallBuilder& call, const BackendPlan& plan, const BackendShadow& pack) {
  const auto uids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const bool known = plan.graph.known && !overrides_shapes(pack);
  for (const BackendTensor& tensor : plan.graph.tensors) {
    const auto place = std::ranges::find(uids, tensor.uid) - uids.begin();
    if (!known || tensor.value_bytes > 0 || place >= std::ssize(pointers)) continue;
    call.add(pointers[static_cast<std::size_t>(place)], tensor.extent, tensor.effect);
  }
  for (std::size_t i = 0; !known && i < pointers.size(); ++i)
    call.add(pointers[i], Extent::unknown(), Effect::read_write);
  call.add(pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr), plan.workspace, Effect::scratch);
  call.trait(plan.graph.traits);
  call.window() = plan.graph.window;
}

cudnnStatus_t execute(const Scope& scope, runtime::Session& session, cudnnHandle_t handle,
                      const std::shared_ptr<BackendPlan>& plan, cudnnBackendDescriptor_t pack,
                      const BackendShadow& pack_shadow) {
  auto* const real = real_cudnnBackendExecute.get(scope);
  const auto launch = [&] {
    const std::lock_guard lock(plan->mutex);
    return real(handle, plan->descriptor, pack);
  };
  if (const Unwatched passes(scope); passes) return launch();
  CallBuilder call(scope, session, "cudnnBackendExecute", plan->graph.kind, cudnn_stream(scope, handle));
  add_operands(call, *plan, pack_shadow);
  if (shadow_tried(pack, plan->graph.traits, plan->serial)) call.trial();
  const auto keep = [&]() -> std::unique_ptr<Replay> {
    if (overrides_shapes(pack_shadow)) return nullptr;
    return keep_execution(Keeping(scope, call.accesses()), handle, plan, pack_shadow);
  };
  if (plan->graph.replayable) call.keep(keep);
  return call.submit(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, launch);
}

}  // namespace

POOCH_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t descriptorType,
                                                        cudnnBackendDescriptor_t* descriptor) {
  const Scope scope;
  auto* const real = real_cudnnBackendCreateDescriptor.get(scope);
  if (real == nullptr) return missing;
  const cudnnStatus_t status = real(descriptorType, descriptor);
  if (status == CUDNN_STATUS_SUCCESS && scope.outermost()) shadow_created(*descriptor, descriptorType);
  return status;
}

// A plan's goes with the last recipe that needs it.
POOCH_EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const Scope scope;
  auto* const real = real_cudnnBackendDestroyDescriptor.get(scope);
  if (real == nullptr) return missing;
  if (const BackendPart shadow = scope.outermost() ? shadow_destroyed(descriptor) : nullptr;
      shadow != nullptr && shadow->plan != nullptr)
    return CUDNN_STATUS_SUCCESS;
  return real(descriptor);
}

POOCH_EXPORT cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
  const Scope scope;
  auto* const real = real_cudnnBackendInitialize.get(scope);
  if (real == nullptr) return missing;
  if (const BackendPart shadow = scope.outermost() ? shadow_of(descriptor) : nullptr; shadow != nullptr) {
    shadow_emptied(descriptor);
    if (shadow->plan != nullptr) {
      const std::lock_guard lock(shadow->plan->mutex);
      shadow->plan->usable = false;
      return real(descriptor);
    }
  }
  return real(descriptor);
}

POOCH_EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const Scope scope;
  auto* const real = real_cudnnBackendFinalize.get(scope);
  if (real == nullptr) return missing;
  const cudnnStatus_t status = real(descriptor);
  if (status == CUDNN_STATUS_SUCCESS && scope.outermost()) note_finalized(scope, descriptor);
  return status;
}

POOCH_EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                    cudnnBackendAttributeName_t attributeName,
                                                    cudnnBackendAttributeType_t attributeType,
                                                    std::int64_t elementCount, const void* arrayOfElements) {
  const Scope scope;
  auto* const real = real_cudnnBackendSetAttribute.get(scope);
  if (real == nullptr) return missing;
  const cudnnStatus_t status = real(descriptor, attributeName, attributeType, elementCount, arrayOfElements);
  if (status == CUDNN_STATUS_SUCCESS && scope.outermost())
    shadow_set(descriptor, attributeName, attributeType, elementCount, arrayOfElements);
  return status;
}

POOCH_EXPORT cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                                    cudnnBackendAttributeName_t attributeName,
                                                    cudnnBackendAttributeType_t attributeType,
                                                    std::int64_t requestedElementCount,
                                                    std::int64_t* elementCount, void* arrayOfElements) {
  const Scope scope;
  auto* const real = real_cudnnBackendGetAttribute.get(scope);
  if (real == nullptr) return missing;
  std::int64_t count = requestedElementCount;
  const cudnnStatus_t status = real(descriptor, attributeName, attributeType, requestedElementCount,
                                    elementCount != nullptr ? elementCount : &count, arrayOfElements);
  if (status == CUDNN_STATUS_SUCCESS && scope.outermost() && attributeType == CUDNN_TYPE_BACKEND_DESCRIPTOR &&
      arrayOfElements != nullptr) {
    if (elementCount != nullptr) count = std::min(*elementCount, requestedElementCount);
    shadow_copied_out(descriptor, attributeName,
                      {static_cast<const cudnnBackendDescriptor_t*>(arrayOfElements),
                       static_cast<std::size_t>(std::max<std::int64_t>(count, 0))});
  }
  return status;
}

POOCH_EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
                                               cudnnBackendDescriptor_t variantPack) {
  decltype(&::cudnnBackendExecute) real = nullptr;
  {
    const Scope scope;
    real = real_cudnnBackendExecute.get(scope);
    if (real == nullptr) return missing;
    const BackendPart plan = scope.outermost() ? shadow_of(executionPlan) : nullptr;
    const BackendPart pack = scope.outermost() ? shadow_of(variantPack) : nullptr;
    if (plan != nullptr && plan->plan != nullptr && pack != nullptr) {
      runtime::Session* const session = session_for_library_call(scope);
      if (session != nullptr) return execute(scope, *session, handle, plan->plan, variantPack, *pack);
    }
  }
  // Descriptors that nobody saw being made: outside of the scope its launches are seen at the driver.
  return real(handle, executionPlan, variantPack);
}

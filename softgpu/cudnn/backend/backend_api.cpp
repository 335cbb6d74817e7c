// The nine functions of the backend API.
#include <algorithm>
#include <cstring>
#include <new>

#include "softgpu/cudnn/backend/backend_descriptor.h"
#include "softgpu/cudnn/backend/backend_finalize.h"
#include "softgpu/cudnn/descriptors/descriptors.h"

namespace softgpu::cudnn {
namespace {

BackendDescriptor* backend(cudnnBackendDescriptor_t descriptor) {
  return static_cast<BackendDescriptor*>(descriptor);
}

cudnnStatus_t null_descriptor(const char* function) {
  return fail(function, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor is a null pointer");
}

bool accepts(const AttributeRule& rule, cudnnBackendAttributeType_t type) {
  return rule.type < 0 || rule.type == static_cast<int>(type) ||
         (rule.type == CUDNN_TYPE_FLOAT && type == CUDNN_TYPE_DOUBLE);
}

cudnnStatus_t check(const char* function, const BackendDescriptor& d, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, const AttributeRule*& rule) {
  rule = attribute_rule(name);
  if (!rule || rule->owner != d.type) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the descriptor has no such attribute");
  }
  if (!accepts(*rule, type) || attribute_bytes(type) == 0) {
    return fail(function, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the attribute is of another type");
  }
  return CUDNN_STATUS_SUCCESS;
}

// The program's descriptors become copies. Ids do not come along, as in cuDNN.
cudnnStatus_t copy_out(const char* function, const BackendAttribute& from, std::int64_t count, void* to) {
  auto* const targets = static_cast<cudnnBackendDescriptor_t*>(to);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& source = from.descriptors[static_cast<std::size_t>(i)];
    BackendDescriptor* const target = backend(targets[i]);
    if (!target || !source || target->type != source->type) {
      return fail(function, CUDNN_STATUS_BAD_PARAM, "a descriptor to fill is of another type");
    }
    *target = *source;
    if (target->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
      target->derive(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector<std::int64_t>{-1});
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                         cudnnBackendDescriptor_t* descriptor) {
  if (!descriptor) return null_argument(__func__);
  *descriptor = nullptr;
  if (!known_descriptor_type(type)) {
    return fail(__func__, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no such type of descriptor");
  }
  auto* const made = new (std::nothrow) BackendDescriptor{type, false, {}, nullptr};
  if (!made) return fail(__func__, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no host memory");
  *descriptor = made;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  if (!descriptor) return null_descriptor(__func__);
  delete backend(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
  if (!descriptor) return null_descriptor(__func__);
  *backend(descriptor) = BackendDescriptor{backend(descriptor)->type, false, {}, nullptr};
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  if (!descriptor) return null_descriptor(__func__);
  return finalize(*backend(descriptor));
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                     cudnnBackendAttributeName_t name,
                                                     cudnnBackendAttributeType_t type, std::int64_t count,
                                                     const void* elements) {
  if (!descriptor) return null_descriptor(__func__);
  BackendDescriptor& d = *backend(descriptor);
  const AttributeRule* rule = nullptr;
  if (auto status = check(__func__, d, name, type, rule); status != CUDNN_STATUS_SUCCESS) return status;
  if (d.finalized) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the descriptor is final");
  if (rule->access == AttributeAccess::result) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the attribute can only be read");
  }
  if (count < 0 || count > rule->most || (count > 0 && !elements)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "no elements, or too many");
  }
  BackendAttribute attribute{name, type, count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* const parts = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (std::int64_t i = 0; i < count; ++i) {
      if (!parts[i]) return null_descriptor(__func__);
      attribute.descriptors.push_back(std::make_shared<const BackendDescriptor>(*backend(parts[i])));
    }
  } else {
    const auto* const bytes = static_cast<const std::byte*>(elements);
    attribute.values.assign(bytes, bytes + static_cast<std::size_t>(count) * attribute_bytes(type));
  }
  d.set(std::move(attribute));
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                                     cudnnBackendAttributeName_t name,
                                                     cudnnBackendAttributeType_t type, std::int64_t requested,
                                                     std::int64_t* returned, void* elements) {
  if (!descriptor) return null_descriptor(__func__);
  const BackendDescriptor& d = *backend(descriptor);
  if (!d.finalized) return fail(__func__, CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is not final");
  const AttributeRule* rule = nullptr;
  if (auto status = check(__func__, d, name, type, rule); status != CUDNN_STATUS_SUCCESS) return status;
  if (rule->access == AttributeAccess::hidden) {
    return fail(__func__, CUDNN_STATUS_NOT_SUPPORTED, "the attribute cannot be read");
  }
  const BackendAttribute* const a = d.find(name);
  if (!a || a->type != type) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the attribute is not set");
  if (requested == 0 || !elements) {
    if (returned) *returned = a->count;
    return CUDNN_STATUS_SUCCESS;
  }
  if (requested < 0) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "a negative number of elements");
  const std::int64_t count = std::min(requested, a->count);
  if (returned) *returned = count;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return copy_out(__func__, *a, count, elements);
  if (count > 0)
    std::memcpy(elements, a->values.data(), static_cast<std::size_t>(count) * attribute_bytes(type));
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                                cudnnBackendDescriptor_t pack) {
  if (any_null(handle, plan, pack)) return null_argument(__func__);
  if (!backend(plan)->plan || backend(pack)->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR ||
      !backend(pack)->finalized) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM,
                "no finalized execution plan, or no finalized variant pack");
  }
  return std::visit(
      [&](const auto& of) { return execute("cudnnBackendExecute", handle, of, *backend(pack)); },
      backend(plan)->plan->graph);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBackendPopulateCudaGraph(cudnnHandle_t, cudnnBackendDescriptor_t,
                                                          cudnnBackendDescriptor_t, cudaGraph_t) {
  return fail(__func__, CUDNN_STATUS_NOT_SUPPORTED, "there are no graphs");
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBackendUpdateCudaGraph(cudnnHandle_t, cudnnBackendDescriptor_t,
                                                        cudnnBackendDescriptor_t, cudaGraph_t) {
  return fail(__func__, CUDNN_STATUS_NOT_SUPPORTED, "there are no graphs");
}

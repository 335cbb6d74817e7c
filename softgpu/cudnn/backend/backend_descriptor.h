// The backend (graph) API's descriptors: bags of attributes. A descriptor that is an attribute of another one
// is copied in, as cuDNN does, so each may be destroyed at any time.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

struct BackendDescriptor;
struct BackendPlan;

struct BackendAttribute {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::int64_t count;
  std::vector<std::byte> values;                                      // of all types but descriptors
  std::vector<std::shared_ptr<const BackendDescriptor>> descriptors;  // may hold null
};

// What cudnnBackendDescriptor_t points to.
struct BackendDescriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::vector<BackendAttribute> attributes;
  std::shared_ptr<const BackendPlan> plan;  // of a finalized execution plan

  const BackendAttribute* find(cudnnBackendAttributeName_t name) const;
  // Takes the place of an attribute of the same name.
  void set(BackendAttribute attribute);

  // The first value; none where the attribute is not set. T is as large as the attribute's type.
  template <class T>
  T value(cudnnBackendAttributeName_t name, T otherwise) const {
    const BackendAttribute* const a = find(name);
    if (a && a->values.size() >= sizeof(T)) std::memcpy(&otherwise, a->values.data(), sizeof(T));
    return otherwise;
  }
  // Empty where the attribute is not set.
  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    const BackendAttribute* const a = find(name);
    if (!a || a->values.empty()) return {};
    std::vector<T> result(a->values.size() / sizeof(T));
    std::memcpy(result.data(), a->values.data(), result.size() * sizeof(T));
    return result;
  }
  // The descriptor in an attribute; null where there is none that is finalized.
  const BackendDescriptor* part(cudnnBackendAttributeName_t name) const;

  template <class T>
  void derive(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t of, const std::vector<T>& from) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(from.data());
    set({name, of, static_cast<std::int64_t>(from.size()), {bytes, bytes + from.size() * sizeof(T)}, {}});
  }
};

// Of a tensor.
Layout layout_of(const BackendDescriptor& tensor);
// What a variant pack has for the unique id; 0: nothing.
std::uint64_t pointer_of(const BackendDescriptor& pack, std::int64_t uid);

// Bytes of one element of an attribute; 0 for types that do not exist.
std::size_t attribute_bytes(cudnnBackendAttributeType_t type);

enum class AttributeAccess : std::uint8_t { settable, result, hidden };  // hidden: can be set, not read

// What may be done with an attribute.
struct AttributeRule {
  cudnnBackendDescriptorType_t owner;
  int type;           // cudnnBackendAttributeType_t; below 0: any
  std::int64_t most;  // elements
  AttributeAccess access;
};
// Null where no descriptor has such an attribute.
const AttributeRule* attribute_rule(cudnnBackendAttributeName_t name);

bool known_descriptor_type(cudnnBackendDescriptorType_t type);

}  // namespace softgpu::cudnn

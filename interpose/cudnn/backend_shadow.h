// What the program told cuDNN of its backend (graph) descriptors. Neither a variant pack's pointers nor a
// graph's operations can be read back, so every attribute is noted as it is set.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace pooch::interpose {

struct BackendPlan;
struct BackendShadow;
// Immutable once somebody else holds it: cuDNN copies a descriptor that becomes part of another one.
using BackendPart = std::shared_ptr<const BackendShadow>;

struct BackendAttribute {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::vector<std::byte> bytes;    // of all types but descriptors
  std::vector<BackendPart> parts;  // null: not known
};

struct BackendShadow {
  // The first plan under which a pack was executed, for each graph.
  struct Execution {
    std::uint64_t graph, plan;
  };

  cudnnBackendDescriptorType_t type;
  std::vector<BackendAttribute> attributes{};
  std::shared_ptr<BackendPlan> plan{};  // of a finalized execution plan
  std::vector<Execution> executions{};  // of a variant pack

  const BackendAttribute* find(cudnnBackendAttributeName_t name) const;
  void set(BackendAttribute attribute);
  // Null where it is not set or not known.
  BackendPart part(cudnnBackendAttributeName_t name) const;

  // Empty where it is not set.
  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    const BackendAttribute* const attribute = find(name);
    if (attribute == nullptr || attribute->bytes.empty()) return {};
    std::vector<T> result(attribute->bytes.size() / sizeof(T));
    std::memcpy(result.data(), attribute->bytes.data(), result.size() * sizeof(T));
    return result;
  }
  template <class T>
  T value(cudnnBackendAttributeName_t name, T otherwise) const {
    const BackendAttribute* const attribute = find(name);
    if (attribute != nullptr && attribute->bytes.size() >= sizeof(T))
      std::memcpy(&otherwise, attribute->bytes.data(), sizeof(T));
    return otherwise;
  }
};

// --- by the program's descriptors; all may be called from any thread

void shadow_created(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
// What was known, for whom it concerns; null where nothing was.
BackendPart shadow_destroyed(cudnnBackendDescriptor_t descriptor);
void shadow_emptied(cudnnBackendDescriptor_t descriptor);
void shadow_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, std::int64_t count, const void* elements);
// cuDNN made `to` copies of what `from` has there.
void shadow_copied_out(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
                       std::span<const cudnnBackendDescriptor_t> to);
void shadow_planned(cudnnBackendDescriptor_t descriptor, std::shared_ptr<BackendPlan> plan);
// Null where nothing is known.
BackendPart shadow_of(cudnnBackendDescriptor_t descriptor);
// Notes an execution. True where the same graph was executed with this pack before, under another plan: the
// program compares engines. PyTorch does so under cudnn.benchmark, and makes a new pack for each execution
// that counts. The first plan cannot be told from one that is there to stay.
bool shadow_tried(cudnnBackendDescriptor_t pack, std::uint64_t graph, std::uint64_t plan);

}  // namespace pooch::interpose

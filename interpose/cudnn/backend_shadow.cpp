#include "interpose/cudnn/backend_shadow.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace pooch::interpose {
namespace {

using Shadow = std::shared_ptr<BackendShadow>;

// Never destroyed: descriptors are used until the process ends.
struct Registry {
  std::mutex mutex;
  std::unordered_map<cudnnBackendDescriptor_t, Shadow> shadows;
};
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

Shadow find(const Registry& all, cudnnBackendDescriptor_t descriptor) {
  const auto found = all.shadows.find(descriptor);
  return found == all.shadows.end() ? nullptr : found->second;
}

// To be changed: what others hold of it stays as it is.
BackendShadow* writable(Registry& all, cudnnBackendDescriptor_t descriptor) {
  const auto found = all.shadows.find(descriptor);
  if (found == all.shadows.end()) return nullptr;
  if (found->second.use_count() > 1) found->second = std::make_shared<BackendShadow>(*found->second);
  return found->second.get();
}

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_FRACTION:
      return sizeof(cudnnFraction_t);
    default:  // numbers of 32 bits and enumerators
      return 4;
  }
}

// The engine that stands in a configuration of the heuristics; of it the graph alone is known.
BackendPart configuration_for(const BackendPart& graph) {
  if (graph == nullptr) return nullptr;
  const auto engine = std::make_shared<BackendShadow>(BackendShadow{CUDNN_BACKEND_ENGINE_DESCRIPTOR});
  engine->set({CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, {}, {graph}});
  const auto made = std::make_shared<BackendShadow>(BackendShadow{CUDNN_BACKEND_ENGINECFG_DESCRIPTOR});
  made->set({CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, {}, {engine}});
  return made;
}

}  // namespace

const BackendAttribute* BackendShadow::find(cudnnBackendAttributeName_t name) const {
  const auto found =
      std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.name == name; });
  return found == attributes.end() ? nullptr : &*found;
}

void BackendShadow::set(BackendAttribute attribute) {
  std::erase_if(attributes, [&](const auto& a) { return a.name == attribute.name; });
  attributes.push_back(std::move(attribute));
}

BackendPart BackendShadow::part(cudnnBackendAttributeName_t name) const {
  const BackendAttribute* const attribute = find(name);
  return attribute == nullptr || attribute->parts.empty() ? nullptr : attribute->parts.front();
}

void shadow_created(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type) {
  const std::lock_guard lock(registry().mutex);
  registry().shadows.insert_or_assign(descriptor, std::make_shared<BackendShadow>(BackendShadow{type}));
}

BackendPart shadow_destroyed(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().shadows.extract(descriptor);
  return found.empty() ? nullptr : found.mapped();
}

void shadow_emptied(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(registry().mutex);
  if (BackendShadow* const shadow = writable(registry(), descriptor)) *shadow = BackendShadow{shadow->type};
}

void shadow_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, std::int64_t count, const void* elements) {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  BackendAttribute attribute{name, type, {}, {}};
  const std::lock_guard lock(registry().mutex);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (const cudnnBackendDescriptor_t part :
         std::span(static_cast<const cudnnBackendDescriptor_t*>(elements), size))
      attribute.parts.push_back(find(registry(), part));
  } else {
    const auto* const first = static_cast<const std::byte*>(elements);
    attribute.bytes.assign(first, first + size * bytes_of(type));
  }
  if (BackendShadow* const shadow = writable(registry(), descriptor)) shadow->set(std::move(attribute));
}

void shadow_copied_out(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
                       std::span<const cudnnBackendDescriptor_t> to) {
  const std::lock_guard lock(registry().mutex);
  const Shadow source = find(registry(), from);
  const BackendAttribute* const attribute = source == nullptr ? nullptr : source->find(name);
  for (std::size_t i = 0; i < to.size(); ++i) {
    BackendPart part;
    if (source != nullptr && name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
      part = configuration_for(source->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    } else if (attribute != nullptr && i < attribute->parts.size()) {
      part = attribute->parts[i];
    }
    if (BackendShadow* const target = writable(registry(), to[i]))
      *target = part != nullptr ? *part : BackendShadow{target->type};
  }
}

void shadow_planned(cudnnBackendDescriptor_t descriptor, std::shared_ptr<BackendPlan> plan) {
  const std::lock_guard lock(registry().mutex);
  if (BackendShadow* const shadow = writable(registry(), descriptor)) shadow->plan = std::move(plan);
}

BackendPart shadow_of(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(registry().mutex);
  return find(registry(), descriptor);
}

bool shadow_tried(cudnnBackendDescriptor_t pack, std::uint64_t graph, std::uint64_t plan) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().shadows.find(pack);
  if (found == registry().shadows.end()) return false;
  auto& executions = found->second->executions;
  const auto first = std::ranges::find(executions, graph, &BackendShadow::Execution::graph);
  if (first != executions.end()) return first->plan != plan;
  executions.push_back({graph, plan});
  return false;
}

}  // namespace pooch::interpose

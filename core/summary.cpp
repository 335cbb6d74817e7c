#include "core/summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace pooch {
namespace {

// The one list of fields: `visit(name, member)` for each.
template <class Summary_, class Visit>
void each_field(Summary_& s, Visit&& visit) {
  visit("schema", s.schema);
  visit("device", s.device);
  visit("policy", s.policy);
  visit("cap_bytes", s.cap_bytes);
  visit("host_budget_bytes", s.host_budget_bytes);
  visit("peak_device_bytes", s.peak_device_bytes);
  visit("peak_host_bytes", s.peak_host_bytes);
  visit("need_bytes", s.need_bytes);
  visit("need_managed_bytes", s.need_managed_bytes);
  visit("iterations", s.iterations);
  visit("ops", s.ops);
  visit("planned_iterations", s.planned_iterations);
  visit("plans_left", s.plans_left);
  visit("replays", s.replays);
  visit("moved_prefetches", s.moved_prefetches);
  visit("verified", s.verified);
  visit("mismatches", s.mismatches);
  visit("unplanned_evictions", s.unplanned_evictions);
  visit("predicted_ms", s.predicted_ms);
  visit("actual_ms", s.actual_ms);
  visit("predicted_peak_bytes", s.predicted_peak_bytes);
  visit("planned_peak_bytes", s.planned_peak_bytes);
  visit("pinned_allocations", s.pinned_allocations);
  visit("pinned_bytes", s.pinned_bytes);
  visit("unified_bytes", s.unified_bytes);
  visit("arrays", s.arrays);
  visit("ipc_handles", s.ipc_handles);
  visit("peer_accesses", s.peer_accesses);
  visit("unforeseen_ops", s.unforeseen_ops);
  visit("landings", s.landings);
  visit("evictions", s.evictions);
  visit("bytes_out", s.bytes_out);
  visit("bytes_in", s.bytes_in);
  visit("vmm_calls", s.vmm_calls);
  visit("handles_created", s.handles_created);
  visit("host_allocations", s.host_allocations);
  visit("host_waits", s.host_waits);
  visit("idle_waits", s.idle_waits);
}

template <class T>
void put(nlohmann::ordered_json& json, const char* key, const std::optional<T>& value) {
  json[key] = value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}
template <class T>
void put(nlohmann::ordered_json& json, const char* key, const T& value) {
  json[key] = value;
}

bool take(const nlohmann::json& value, std::string& out) {
  if (!value.is_string()) return false;
  out = value.get<std::string>();
  return true;
}
template <class Integer>
bool take(const nlohmann::json& value, Integer& out) {
  if (!value.is_number_unsigned()) return false;
  out = value.get<Integer>();
  return true;
}
bool take(const nlohmann::json& value, double& out) {
  if (!value.is_number()) return false;
  out = value.get<double>();
  return true;
}
template <class T>
bool take(const nlohmann::json& value, std::optional<T>& out) {
  if (value.is_null()) return true;
  return take(value, out.emplace());
}

}  // namespace

std::string to_json(const Summary& summary) {
  nlohmann::ordered_json json;
  each_field(summary, [&](const char* key, const auto& value) { put(json, key, value); });
  return json.dump(2) + "\n";
}

Result<Summary> summary_from_json(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Error{ErrorCode::invalid_argument, "summary: not a JSON object"};
  Summary summary;
  std::string wrong;
  each_field(summary, [&](const char* key, auto& value) {
    if (!wrong.empty()) return;
    const auto found = json.find(key);
    if (found == json.end()) {
      wrong = fmt::format("summary: /{} is missing", key);
    } else if (!take(*found, value)) {
      wrong = fmt::format("summary: /{} is {}", key, found->dump());
    }
  });
  if (!wrong.empty()) return Error{ErrorCode::invalid_argument, wrong};
  return summary;
}

}  // namespace pooch

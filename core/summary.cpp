#include "core/summary.h"

#include <fmt/core.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/json_cursor.h"

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
  visit("substitutes", s.substitutes);
  visit("aliased_iterations", s.aliased_iterations);
  visit("any_size_iterations", s.any_size_iterations);
  visit("moved_frames", s.moved_frames);
  visit("replans", s.replans);
  visit("verified", s.verified);
  visit("mismatches", s.mismatches);
  visit("unplanned_evictions", s.unplanned_evictions);
  visit("predicted_ms", s.predicted_ms);
  visit("actual_ms", s.actual_ms);
  visit("in_core_ms", s.in_core_ms);
  visit("settled_after", s.settled_after);
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
  visit("unforeseen_kernels", s.unforeseen_kernels);
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

void put(nlohmann::ordered_json& json, const char* key, const std::vector<UnforeseenKernel>& kernels) {
  auto list = nlohmann::ordered_json::array();
  for (const UnforeseenKernel& one : kernels)
    list.push_back({{"name", one.name}, {"launches", one.launches}, {"why", one.why}});
  json[key] = std::move(list);
}

void take(JsonCursor& in, std::string& out) {
  in.text(out);
}
template <class Integer>
void take(JsonCursor& in, Integer& out) {
  in.whole(out, static_cast<std::uint64_t>(std::numeric_limits<Integer>::max()));
}
void take(JsonCursor& in, double& out) {
  out = in.real(std::numeric_limits<double>::max());
}
void take(JsonCursor& in, std::vector<UnforeseenKernel>& out) {
  static constexpr JsonField<UnforeseenKernel> fields[] = {
      {"name", true, [](JsonCursor& from, UnforeseenKernel& one) { take(from, one.name); }},
      {"launches", true, [](JsonCursor& from, UnforeseenKernel& one) { take(from, one.launches); }},
      {"why", true, [](JsonCursor& from, UnforeseenKernel& one) { take(from, one.why); }},
  };
  in.array([&] { in.object(out.emplace_back(), fields); });
}
template <class T>
void take(JsonCursor& in, std::optional<T>& out) {
  if (!in.null()) take(in, out.emplace());
}

}  // namespace

std::string UnforeseenKernel::short_name() const {
  constexpr std::size_t longest = 120;
  if (name.size() <= longest) return name;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;  // within a character
  return name.substr(0, end) + "…";
}

std::string to_json(const Summary& summary) {
  nlohmann::ordered_json json;
  each_field(summary, [&](const char* key, const auto& value) { put(json, key, value); });
  // The driver's name for a device may be any bytes.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<Summary> summary_from_json(const std::string& text) {
  Summary summary;
  std::set<std::string_view> missing;
  each_field(summary, [&](const char* key, const auto& /*value*/) { missing.insert(key); });
  JsonCursor in(text);
  in.members([&](std::string_view key) {
    bool known = false;
    each_field(summary, [&](const char* field, auto& value) {
      if (key != field) return;
      known = true;
      if (missing.erase(key) == 0) return in.reject("appears twice");
      take(in, value);
    });
    if (!known) in.skip();
  });
  in.finish();
  if (!in.good()) return Error{ErrorCode::invalid_argument, "summary: " + in.error()};
  std::string_view first;
  each_field(summary, [&](const char* key, const auto& /*value*/) {
    if (first.empty() && missing.contains(key)) first = key;
  });
  if (!first.empty())
    return Error{ErrorCode::invalid_argument, fmt::format("summary: /{} is missing", first)};
  return summary;
}

}  // namespace pooch

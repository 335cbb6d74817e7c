#include "runtime/plan_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/hash.h"
#include "runtime/json_text.h"
#include "runtime/whole_file.h"

namespace pooch::runtime {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view made_for = "{\"made_for\":";

Error useless(const std::string& path, const std::string& why) {
  return {ErrorCode::invalid_argument, fmt::format("{}: {}", path, why)};
}

}  // namespace

std::string PlanIdentity::to_json() const {
  return fmt::format(
      R"({{"phase":{},"structure":{},"device":{},"policy":{},"backing":{},"cap":{},"host_budget":{},)"
      R"("planner":{}}})",
      json_quoted(phase), json_quoted(structure), json_quoted(device), json_quoted(policy),
      json_quoted(name(backing)), cap, host_budget, json_quoted(planner));
}

std::string PlanIdentity::mismatch(const Plan& plan) const {
  const auto differs = [](const char* what, const auto& is, const auto& wanted) {
    return is == wanted ? std::string() : fmt::format("its {} is '{}', not '{}'", what, is, wanted);
  };
  if (!plan.algorithms.empty()) return "it gives convolutions other algorithms, which would change results";
  for (const std::string& found :
       {differs("phase", plan.phase, phase),
        structure.empty() ? "" : differs("structure", plan.structure, structure),
        differs("device", plan.device, device), differs("policy", plan.policy, policy),
        differs("backing", name(plan.backing), name(backing)), differs("cap", plan.cap, cap)}) {
    if (!found.empty()) return found;
  }
  return {};
}

std::string PlanCache::path_of(const PlanIdentity& identity) const {
  const bool plain = std::all_of(identity.phase.begin(), identity.phase.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  return fmt::format("{}/{}-{:016x}.json", folder_, plain ? identity.phase : "plan",
                     hash(identity.to_json()));
}

Result<std::optional<Plan>> PlanCache::find(const PlanIdentity& identity) const {
  if (folder_.empty()) return std::optional<Plan>{};
  const std::string path = path_of(identity);
  const auto text = read_whole(path);
  if (!text) {
    const int reason = text.error().vendor_status;
    if (reason == ENOENT || reason == ENOTDIR) return std::optional<Plan>{};
    return useless(path, text.error().message);
  }
  auto plan = plan_from_json(*text);
  if (!plan) return useless(path, plan.error().message);
  if (!text->starts_with(fmt::format("{}{},", made_for, identity.to_json())))
    return useless(path, "it was made for something else");
  if (const std::string why = identity.mismatch(*plan); !why.empty()) return useless(path, why);
  return std::optional<Plan>(std::move(*plan));
}

Status PlanCache::store(const PlanIdentity& identity, const Plan& plan) const {
  if (folder_.empty()) return Done{};
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return useless(folder_, error.message());
  const std::string path = path_of(identity);
  const std::string text = fmt::format("{}{},\n {}", made_for, identity.to_json(), to_json(plan).substr(1));
  const Status written = write_whole(path, text);
  return written ? written : useless(path, written.error().message);
}

std::string cache_folder(const std::string& chosen) {
  std::error_code error;
  if (!chosen.empty()) return fs::absolute(chosen, error).string();
  // Relative ones are invalid (XDG Base Directory Specification).
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/pooch";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache/pooch";
  return {};
}

}  // namespace pooch::runtime

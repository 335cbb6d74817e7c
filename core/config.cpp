#include "core/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/bytes.h"
#include "core/nearest.h"

namespace pooch {
namespace {

constexpr std::array<std::string_view, 13> policy_names = {"keep",         "demand",   "swap-all-unscheduled",
                                                           "swap-all",     "swap-opt", "pooch",
                                                           "superneurons", "vdnn-all", "vdnn-conv",
                                                           "vdnn-dyn",     "lms",      "lms-sync",
                                                           "hybrid"};
constexpr std::array<std::string_view, 3> verify_names = {"off", "sample", "all"};
constexpr std::array<std::string_view, 3> landing_names = {"auto", "on", "off"};
constexpr std::array<std::string_view, 2> story_names = {"device", "all"};
constexpr std::array<std::string_view, 4> timer_names = {"automatic", "cupti", "events", "none"};
constexpr std::array<std::string_view, 2> switch_names = {"0", "1"};
constexpr std::array<std::string_view, 4> level_names = {"error", "warn", "info", "debug"};

const std::vector<std::string>& variables() {
  static const std::vector<std::string> all{
      "POOCH_CACHE",   "POOCH_CALLSITES",     "POOCH_CHECK",    "POOCH_CHILDREN",   "POOCH_HOST_MEMORY",
      "POOCH_LANDING", "POOCH_LOG",           "POOCH_LOG_FILE", "POOCH_MEMORY_CAP", "POOCH_MEMORY_INFO",
      "POOCH_PLAN",    "POOCH_PLANNER",       "POOCH_POLICY",   "POOCH_RECORD",     "POOCH_REPORT",
      "POOCH_STATUS",  "POOCH_SUBSTITUTES",   "POOCH_SUMMARY",  "POOCH_TIMER",      "POOCH_TRACE",
      "POOCH_VERIFY",  "POOCH_WAIT_FOR_PLANS"};
  return all;
}

template <std::size_t N>
Result<std::size_t> choose(std::string_view text, const std::array<std::string_view, N>& names) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  return Error{ErrorCode::invalid_argument,
               fmt::format("'{}': accepted are {}{}", text, fmt::join(names, ", "),
                           did_you_mean(text, std::vector<std::string>(names.begin(), names.end())))};
}

Error at(const char* variable, const Error& why) {
  return {why.code, fmt::format("{}: {}", variable, why.message)};
}

// A size must make sense before the device is known; a share is checked against any whole.
Result<std::optional<SizeSetting>> read_size(const char* variable, const char* text) {
  if (text == nullptr || *text == '\0') return std::optional<SizeSetting>{};
  const auto bytes = parse_bytes(text, 100);
  if (!bytes) return at(variable, bytes.error());
  if (*bytes == 0)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{}: '{}' is nothing: accepted are sizes above 0", variable, text)};
  return std::optional<SizeSetting>{SizeSetting{text}};
}

}  // namespace

std::string_view name(Policy policy) {
  return policy_names[static_cast<std::size_t>(policy)];
}

Result<Policy> parse_policy(std::string_view text) {
  const auto index = choose(text, policy_names);
  if (!index) return index.error();
  return static_cast<Policy>(*index);
}

Result<std::uint64_t> SizeSetting::resolve(std::uint64_t whole) const {
  return parse_bytes(text, whole);
}

std::optional<std::string> mistyped_variable(const char* const* environment) {
  for (const char* const* entry = environment; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("POOCH_") ||
        std::find(variables().begin(), variables().end(), name) != variables().end())
      continue;
    // Others may have variables with that beginning.
    if (const std::string meant = did_you_mean(name, variables()); !meant.empty())
      return fmt::format("{}: pooch has no such variable{}", name, meant);
  }
  return std::nullopt;
}

Result<Config> read_config(const std::function<const char*(const char*)>& get) {
  Config config;
  const auto cap = read_size("POOCH_MEMORY_CAP", get("POOCH_MEMORY_CAP"));
  if (!cap) return cap.error();
  config.memory_cap = *cap;
  const auto host = read_size("POOCH_HOST_MEMORY", get("POOCH_HOST_MEMORY"));
  if (!host) return host.error();
  config.host_memory = *host;
  if (const char* text = get("POOCH_MEMORY_INFO"); text != nullptr && *text != '\0') {
    const auto story = choose(text, story_names);
    if (!story) return at("POOCH_MEMORY_INFO", story.error());
    config.memory_info = static_cast<MemoryStory>(*story);
  }
  if (const char* text = get("POOCH_POLICY"); text != nullptr && *text != '\0') {
    const auto policy = parse_policy(text);
    if (!policy) return at("POOCH_POLICY", policy.error());
    config.policy = *policy;
    config.policy_chosen = true;
  }
  if (const char* text = get("POOCH_TIMER"); text != nullptr && *text != '\0') {
    const auto timer = choose(text, timer_names);
    if (!timer) return at("POOCH_TIMER", timer.error());
    config.timer = static_cast<Timer>(*timer);
  }
  if (const char* text = get("POOCH_CALLSITES"); text != nullptr && *text != '\0') {
    const auto wanted = choose(text, switch_names);
    if (!wanted) return at("POOCH_CALLSITES", wanted.error());
    config.call_sites = *wanted == 1;
  }
  if (const char* text = get("POOCH_WAIT_FOR_PLANS"); text != nullptr && *text != '\0') {
    const auto wanted = choose(text, switch_names);
    if (!wanted) return at("POOCH_WAIT_FOR_PLANS", wanted.error());
    config.wait_for_plans = *wanted == 1;
  }
  if (const char* text = get("POOCH_VERIFY"); text != nullptr && *text != '\0') {
    const auto verify = choose(text, verify_names);
    if (!verify) return at("POOCH_VERIFY", verify.error());
    config.verify = static_cast<Verify>(*verify);
  }
  if (const char* text = get("POOCH_SUBSTITUTES"); text != nullptr && *text != '\0') {
    const auto wanted = choose(text, switch_names);
    if (!wanted) return at("POOCH_SUBSTITUTES", wanted.error());
    config.substitutes = *wanted == 1;
  }
  if (const char* text = get("POOCH_CHECK"); text != nullptr && *text != '\0') {
    const auto wanted = choose(text, switch_names);
    if (!wanted) return at("POOCH_CHECK", wanted.error());
    config.check_copies = *wanted == 1;
  }
  if (const char* text = get("POOCH_LANDING"); text != nullptr && *text != '\0') {
    const auto landing = choose(text, landing_names);
    if (!landing) return at("POOCH_LANDING", landing.error());
    config.landing = static_cast<LandingUse>(*landing);
  }
  if (const char* text = get("POOCH_LOG"); text != nullptr && *text != '\0') {
    const auto level = choose(text, level_names);
    if (!level) return at("POOCH_LOG", level.error());
    config.log_level = static_cast<LogLevel>(*level);
  }
  if (const char* text = get("POOCH_CHILDREN"); text != nullptr && *text != '\0') {
    const auto wanted = choose(text, switch_names);
    if (!wanted) return at("POOCH_CHILDREN", wanted.error());
    config.children = *wanted == 1;
  }
  config.local_rank = find_local_rank(get);
  if (const char* text = get("POOCH_LOG_FILE")) config.log_file = text;
  if (const char* text = get("POOCH_REPORT")) config.report_folder = text;
  if (const char* text = get("POOCH_SUMMARY")) config.summary_folder = text;
  if (const char* text = get("POOCH_STATUS")) config.status_folder = text;
  config.status = config.status_folder != "0";
  if (const char* text = get("POOCH_RECORD")) config.record_file = text;
  if (const char* text = get("POOCH_PLAN")) config.plan_file = text;
  if (const char* text = get("POOCH_CACHE")) config.cache_folder = text;
  if (const char* text = get("POOCH_PLANNER")) config.planner_program = text;
  if (const char* text = get("POOCH_TRACE")) config.trace_file = text;
  config.watch_from_start = config.policy_chosen || !config.plan_file.empty() ||
                            !config.report_folder.empty() || !config.record_file.empty() ||
                            !config.trace_file.empty();
  return config;
}

}  // namespace pooch

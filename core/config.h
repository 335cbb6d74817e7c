// The POOCH_* environment variables, parsed once at the program's first cuInit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/local_rank.h"
#include "core/result.h"

namespace pooch {

enum class Policy : std::uint8_t {
  keep,    // nothing ever leaves the device
  demand,  // evicts at need, without any plan
  // Planned ones: all_policies() in policy/planner.cpp, except keep. policy_names in config.cpp has the order
  // of this list.
  swap_all_unscheduled,
  swap_all,
  swap_opt,
  pooch,
  superneurons,
  vdnn_all,
  vdnn_conv,
  vdnn_dyn,
  lms,
  lms_sync,
  hybrid,
};
// Whether plans are made, once the network is known.
constexpr bool is_planned(Policy policy) {
  return policy > Policy::demand;
}
// When recomputed content is compared, by digest, with the dropped original.
enum class Verify : std::uint8_t { off, sample, all };
// What measures op times: CUPTI if available, else events; only one of them; nothing.
enum class Timer : std::uint8_t { automatic, cupti, events, none };
// Whether evicted memory is mapped to its copy on the host: if the program needs it, always, never.
enum class LandingUse : std::uint8_t { automatic, on, off };
// How much memory programs are told of: what a device of the cap's size has, or all that is granted.
enum class MemoryStory : std::uint8_t { device, all };
enum class LogLevel : std::uint8_t { error, warn, info, debug };

std::string_view name(Policy policy);
Result<Policy> parse_policy(std::string_view text);  // error: the accepted names

// A size, or a percentage of a whole that is known later ("80%").
struct SizeSetting {
  std::string text;
  // Bytes, given the whole that a percentage refers to.
  Result<std::uint64_t> resolve(std::uint64_t whole) const;
};

struct Config {
  std::optional<SizeSetting> memory_cap;   // POOCH_MEMORY_CAP
  std::optional<SizeSetting> host_memory;  // POOCH_HOST_MEMORY
  Policy policy = Policy::hybrid;          // POOCH_POLICY
  bool policy_chosen = false;              // it was set: plans are made even if memory is never short
  Timer timer = Timer::automatic;          // POOCH_TIMER
  bool call_sites = false;                 // POOCH_CALLSITES
  std::string plan_file;                   // POOCH_PLAN, empty: plans are made or found in the cache
  std::string cache_folder;                // POOCH_CACHE, empty: the user's cache folder
  std::string planner_program;             // POOCH_PLANNER, empty: the `pooch` that came with this library
  bool wait_for_plans = false;             // POOCH_WAIT_FOR_PLANS
  Verify verify = Verify::sample;          // POOCH_VERIFY
  bool substitutes = true;                 // POOCH_SUBSTITUTES
  bool check_copies = false;               // POOCH_CHECK
  LandingUse landing = LandingUse::automatic;  // POOCH_LANDING
  std::string trace_file;                      // POOCH_TRACE, empty: no timeline is written
  std::string report_folder;                   // POOCH_REPORT, empty: no profile
  std::string summary_folder;                  // POOCH_SUMMARY, empty: no summary except in a report
  bool status = true;                          // POOCH_STATUS: `pooch top` can look
  std::string status_folder;                   // POOCH_STATUS, empty: the usual one
  std::string record_file;                     // POOCH_RECORD, empty: the call stream is not recorded
  LogLevel log_level = LogLevel::warn;         // POOCH_LOG
  std::string log_file;                        // POOCH_LOG_FILE, empty: stderr
  // Calls are watched from the first one. False: nothing above needs that, so they are watched only once
  // memory is nearly short.
  bool watch_from_start = true;
  bool children = true;                 // POOCH_CHILDREN: also in programs that a CUDA program starts
  std::optional<LocalRank> local_rank;  // among the processes that share this node's host memory
  MemoryStory memory_info = MemoryStory::device;  // POOCH_MEMORY_INFO
};

// The first variable of an environment ("NAME=value", …, nullptr) that looks like one of pooch's mistyped:
// the line to print.
std::optional<std::string> mistyped_variable(const char* const* environment);

// `get` returns the value of a variable or nullptr, like getenv. The error's message is the one line to
// print: variable, value, what is accepted.
Result<Config> read_config(const std::function<const char*(const char*)>& get);

}  // namespace pooch

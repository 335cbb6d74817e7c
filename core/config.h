// The POOCH_* environment variables, understood once at the program's first cuInit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace pooch {

enum class Policy : std::uint8_t { keep, demand };
// Who measures op times: CUPTI where it can be had and events elsewhere, one of them, or nobody.
enum class Timer : std::uint8_t { automatic, cupti, events, none };
enum class LogLevel : std::uint8_t { error, warn, info, debug };

std::string_view name(Policy policy);
Result<Policy> parse_policy(std::string_view text);  // error: the accepted names

// A size that may be a share of something known only later ("80%").
struct SizeSetting {
  std::string text;
  // Bytes, given the whole that a percentage refers to.
  Result<std::uint64_t> resolve(std::uint64_t whole) const;
};

struct Config {
  std::optional<SizeSetting> memory_cap;   // POOCH_MEMORY_CAP
  std::optional<SizeSetting> host_memory;  // POOCH_HOST_MEMORY
  Policy policy = Policy::demand;          // POOCH_POLICY
  Timer timer = Timer::automatic;          // POOCH_TIMER
  bool call_sites = false;                 // POOCH_CALLSITES
  std::string report_folder;               // POOCH_REPORT, empty: no report
  std::string record_file;                 // POOCH_RECORD, empty: the call stream is not kept
  LogLevel log_level = LogLevel::warn;     // POOCH_LOG
  std::string log_file;                    // POOCH_LOG_FILE, empty: stderr
};

// `get` returns the value of a variable or nullptr, like getenv. The error's message is the one line to
// print: variable, value, what is accepted.
Result<Config> read_config(const std::function<const char*(const char*)>& get);

// Bytes of host memory this process may have: the least of physical memory and the cgroup limits that bind
// it.
std::uint64_t available_host_memory();

}  // namespace pooch

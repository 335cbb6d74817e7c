// What has gone wrong. Each kind is reported once. Once pooch's records may differ from the device, no call
// may read managed memory any more.
//
// Any thread may call it, with the session's mutex or without.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "core/result.h"
#include "runtime/session/answers.h"

namespace pooch::runtime {

class Failures {
 public:
  enum class Kind : std::uint32_t {
    harmless = 1,   // something of pooch's own failed, and no content can be wrong for it
    full = 2,       // an allocation does not fit beside all others
    too_large = 4,  // ... or not at all
    pin = 8,        // memory that kernels reach unseen does not fit
    trace = 16,     // the timeline cannot be written
  };
  // Whether it is the first of its kind, to be reported.
  bool first(Kind kind) {
    const auto bit = static_cast<std::uint32_t>(kind);
    return (said_.fetch_or(bit) & bit) == 0;
  }
  // Reports that something of pooch's own failed, and what follows from it. No content can be wrong for it.
  void report(std::string_view where, const Error& why, std::string_view consequence);
  // pooch's records may differ from the device: reports it once, and every later call that may read managed
  // memory is refused.
  void fail(std::string_view where, const Error& why);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // A shortage of memory was said: what fails for want of memory later is no news.
  bool said_shortage() const;
  // What the program is told of a call that is not made. Out of memory is the program's to handle: it may
  // free something and try again. After anything else nobody can tell what it does instead, with what result:
  // the session fails. A shortage is said once, whatever calls meet it. `doubtful`: the device's mappings are
  // not what is noted here.
  int refuse(std::string_view where, const Error& why, bool doubtful, const Refusal& refusal);

 private:
  std::atomic<std::uint32_t> said_{0};  // kinds
  std::atomic<bool> failed_{false};
  mutable std::mutex shortage_mutex_;  // a leaf
  std::string last_shortage_;          // that was said, less the call's name
};

}  // namespace pooch::runtime

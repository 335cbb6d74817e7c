// Finds the formula that recomputes a call's result (core/substitute.h). Right after the call, its operands
// hold what it read and what it made: one pass in the same stream compares that with the result of each
// formula. It writes only words in page-locked memory, which the host reads when the device has got there;
// nothing waits. The pass reads what the substitute will read and as much as that will write, so its time is
// also the substitute's.
//
// Calls that are alike (tracker::Op::local_key) are tried twice in all. The session's mutex guards it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>

#include "core/call.h"
#include "core/device.h"

namespace pooch::runtime {

struct SubstituteFinding {
  std::optional<Formula> formula;  // makes the same bits; none: no formula does
  double us = 0;  // of the shortest pass: the first one of all waits for the kernel to be loaded
};

class SubstituteTrials {
 public:
  static constexpr unsigned most_passes = 2;

  // `wanted`: else nothing is tried, and nothing is found.
  SubstituteTrials(Device& device, bool wanted) : device_(device), working_(wanted) {}
  SubstituteTrials(const SubstituteTrials&) = delete;
  SubstituteTrials& operator=(const SubstituteTrials&) = delete;
  // The device must be idle.
  void close();

  bool wants(std::uint64_t key) const;
  // The call of this key was launched in `stream`.
  void launched(std::uint64_t key, const Substitute& how, std::span<const Access> accesses,
                StreamHandle stream);
  bool working() const { return working_; }
  // Whether some pass has not come to its end.
  bool pending() { return collect(), working_ && !pending_.empty(); }
  // The host waits, mutex held, for what was launched.
  void await();
  // Passes that were launched.
  std::uint64_t passes() const { return passes_; }

  // Empty: no pass has come to its end.
  std::optional<SubstituteFinding> finding(std::uint64_t key);
  // Its recomputed result differed from the call's, whatever its passes found.
  void disprove(std::uint64_t key) { known_[key].differs.fill(true); }

 private:
  static constexpr std::size_t most_pending = 256;

  struct Pass {
    std::uint64_t key;
    EventHandle begin, end;
    std::uint32_t slot;
  };
  struct Known {
    unsigned launched = 0, ended = 0;
    std::array<bool, formulas> differs{};
    double us = 0;  // of the shortest that has ended
  };
  using Flags = std::uint32_t[formulas];

  Status open();
  Status launch(const NormaliseCall& call, StreamHandle stream, Pass& pass);
  void collect();
  Status take(const Pass& pass);
  void fail(const Error& why);

  Device& device_;
  Flags* flags_ = nullptr;  // page-locked, by slot
  std::deque<std::uint32_t> free_slots_;
  std::deque<Pass> pending_;
  std::unordered_map<std::uint64_t, Known> known_;
  std::uint64_t passes_ = 0;
  bool working_;
};

}  // namespace pooch::runtime

// Happens-before by vector clocks. Agents are the host (all its threads: every call takes one lock, so the
// host is one sequence) and the streams. An access is ordered before whoever's clock covers it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace softgpu {

using AgentId = std::uint32_t;
inline constexpr AgentId host_agent = 0;

// Virtual time.
using Nanoseconds = std::int64_t;

// Who touched something last, and enough to name it in a message.
struct Access {
  const char* name = nullptr;  // API function or kernel; lives as long as the process
  std::uint64_t call = 0;      // number of the API call, from 1
  std::uint64_t epoch = 0;     // the agent's own count; 0: nobody
  AgentId agent = host_agent;
  std::uint32_t stream = 0;  // the stream's public id; 0 for the host
  int device = 0;            // the stream's

  explicit operator bool() const { return epoch != 0; }
  friend bool operator==(const Access& a, const Access& b) {
    return a.epoch == b.epoch && a.agent == b.agent && a.call == b.call;
  }
};

class VectorClock {
 public:
  std::uint64_t get(AgentId agent) const { return agent < epochs_.size() ? epochs_[agent] : 0; }
  void raise(AgentId agent, std::uint64_t epoch) {
    if (agent >= epochs_.size()) epochs_.resize(agent + 1, 0);
    epochs_[agent] = std::max(epochs_[agent], epoch);
  }
  // The agent's next epoch.
  std::uint64_t tick(AgentId agent) {
    raise(agent, get(agent) + 1);
    return epochs_[agent];
  }
  void join(const VectorClock& other) {
    if (other.epochs_.size() > epochs_.size()) epochs_.resize(other.epochs_.size(), 0);
    for (std::size_t i = 0; i < other.epochs_.size(); ++i)
      epochs_[i] = std::max(epochs_[i], other.epochs_[i]);
  }
  bool covers(const Access& access) const { return get(access.agent) >= access.epoch; }

 private:
  std::vector<std::uint64_t> epochs_;
};

}  // namespace softgpu

// The parts of a session over a LazyDevice, each within reach of a test, and a program whose calls go through
// them as through Session::submit. What is outside of the pool, landing, graphs and reports are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/call.h"
#include "core/config.h"
#include "runtime/execution/executor.h"
#include "runtime/execution/verification.h"
#include "runtime/memory/held.h"
#include "runtime/observe/profiler.h"
#include "runtime/session/memory.h"
#include "tests/support/lazy_device.h"
#include "tracker/tracker.h"

namespace pooch::test {

class Rig {
 public:
  explicit Rig(const Config& config, std::uint64_t device_bytes = 512 * MiB);
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  Result<Address> allocate(std::uint64_t bytes, StreamHandle stream);
  Status free(Address base, StreamHandle stream);
  Status submit(const Call& call, FunctionRef<void()> launch);
  // Adds to each op what the tracker cannot know of it, before it launches.
  std::function<void(tracker::Op&)> describe = [](tracker::Op&) {};

  LazyDevice device;
  runtime::SessionMutex mutex;
  const runtime::Limits limits;
  const runtime::Arena arena;
  tracker::Tracker tracker;
  runtime::Memory memory;
  std::optional<runtime::Verification> verification;
  std::optional<runtime::Executor> executor;
  runtime::Profiler profiler;

 private:
  Status make_ready(const Call& call, runtime::Executor::Readied& readied, runtime::Held& held);

  tracker::Op op_;  // of the call at hand
  std::vector<runtime::ChunkUse> uses_;
};

// A program that trains: in each iteration its ops make a map of 2 MiB each, others read them in reverse
// order, as in chain_of(maps, op_us) of tests/support/chain.h, and the last op updates a weight. It writes a
// number into each map that it makes, and looks whether the reader finds it.
class ChainProgram {
 public:
  ChainProgram(Rig& rig, int maps) : rig_(rig), maps_(static_cast<std::size_t>(maps)) {}

  double op_us = 100;  // that each op takes from now on
  // One iteration, of all maps or of the first so many. Error: what the rig refused.
  Status iterate() { return iterate(maps_.size()); }
  Status iterate(std::size_t maps);
  StreamHandle stream() const { return stream_; }
  int wrong() const { return wrong_; }  // maps that were not as they were made

 private:
  Status begin();
  Status make(std::size_t map);
  Status read(std::size_t map);
  Status on_weight(const char* function, Effect effect);

  Rig& rig_;
  StreamHandle stream_ = *rig_.device.create_stream();
  struct Map {
    Address address{};
    std::uint64_t number = 0;  // that is in it
  };
  std::vector<Map> maps_;
  std::optional<Address> weight_;
  std::uint64_t made_ = 0;
  int wrong_ = 0;
};

}  // namespace pooch::test

// What is noted of calls and work while a profiler listens (softgpu/activity.h).
#pragma once

#include <atomic>

#include "softgpu/activity.h"
#include "softgpu/driver/terms/stream.h"

namespace softgpu {

// There is one, from before cuInit to the end. Noting happens under the machine's lock.
class ActivityFeed {
 public:
  bool wants(ActivityKinds kind) const { return (kinds_.load(std::memory_order_relaxed) & kind) != 0; }
  void listen(const ActivitySink* sink, unsigned kinds);

  void note(const CallActivity& call) const;
  // Of the runtime's call that this thread is in; 0: none that is noted.
  static std::uint32_t runtime_call();
  void begin_runtime_call();
  void end_runtime_call();
  // Notes `work` when it has run. The caller has filled in what the call says; the rest follows.
  void follow(Work& work, const WorkActivity& activity) const;

 private:
  std::atomic<unsigned> kinds_{0};
  std::atomic<const ActivitySink*> sink_{nullptr};
};

ActivityFeed& activity_feed();
const ActivityTable& activity_table();

}  // namespace softgpu

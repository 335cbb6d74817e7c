#include "softgpu/driver/api/activity.h"

#include <utility>

#include "softgpu/driver/machine/machine.h"

namespace softgpu {
namespace {

struct RuntimeCall {
  std::uint32_t correlation = 0;
  std::int64_t began = 0;
  unsigned within = 0;  // it, of calls of other runtimes
};
thread_local RuntimeCall runtime_call_of_thread;

std::int64_t now() {
  Machine* const m = machine();
  if (m == nullptr) return 0;
  const Lock lock(m->scheduler.mutex);
  return m->scheduler.now;
}

}  // namespace

std::uint32_t ActivityFeed::runtime_call() {
  return runtime_call_of_thread.correlation;
}

void ActivityFeed::begin_runtime_call() {
  static std::atomic<std::uint32_t> calls{0};
  constexpr std::uint32_t of_runtime = 0x8000'0000;  // the driver's numbers are below
  const ActivitySink* const sink = sink_;
  if (runtime_call() != 0) {
    ++runtime_call_of_thread.within;
    if (sink != nullptr) sink->runtime_call(true, runtime_call());
    return;
  }
  if (sink == nullptr || !wants(activity_calls) || machine() == nullptr) return;
  runtime_call_of_thread = {of_runtime | ++calls, now(), 0};
  sink->runtime_call(true, runtime_call());
}

void ActivityFeed::end_runtime_call() {
  const ActivitySink* const sink = sink_;
  if (runtime_call_of_thread.within > 0) {
    --runtime_call_of_thread.within;
    if (sink != nullptr) sink->runtime_call(false, runtime_call());
    return;
  }
  const RuntimeCall call = std::exchange(runtime_call_of_thread, {});
  Machine* const m = machine();
  if (call.correlation == 0 || m == nullptr || sink == nullptr) return;
  {
    const Lock lock(m->scheduler.mutex);
    note({nullptr, call.correlation, call.began, m->scheduler.now, CUDA_SUCCESS});
  }
  sink->runtime_call(false, call.correlation);
}

void ActivityFeed::listen(const ActivitySink* sink, unsigned kinds) {
  sink_ = sink;
  kinds_ = sink != nullptr ? kinds : 0;
}

void ActivityFeed::note(const CallActivity& call) const {
  if (const ActivitySink* const sink = sink_) sink->call(call);
}

void ActivityFeed::follow(Work& work, const WorkActivity& activity) const {
  work.finish = [this, activity](const Access&, Stream& in) {
    const ActivitySink* const sink = sink_;
    const Machine* const m = machine();
    if (sink == nullptr || m == nullptr) return;
    WorkActivity done = activity;
    done.stream = in.id;
    done.start = in.began;
    done.end = in.time;
    done.now = m->scheduler.now;
    sink->work(done);
  };
}

ActivityFeed& activity_feed() {
  static ActivityFeed feed;
  return feed;
}

namespace {

// Not while a call is under way: it is noted at both ends or at none.
void listen(const ActivitySink* sink, unsigned kinds) {
  Lock lock;
  if (Machine* const m = machine()) lock = Lock(m->scheduler.mutex);
  activity_feed().listen(sink, kinds);
}

void wait_for_all() {
  Machine* const m = machine();
  if (m == nullptr) return;
  Lock lock(m->scheduler.mutex);
  m->scheduler.wait_context(lock, nullptr);
}

// Null where it is none, or gone.
Context* known(Machine& m, CUcontext context) {
  const auto found = m.contexts.find(reinterpret_cast<Context*>(context));
  return found != m.contexts.end() && found->second->alive ? found->first : nullptr;
}

std::uint32_t context_id(CUcontext which) {
  Machine* const m = machine();
  if (m == nullptr) return 0;
  const Lock lock(m->scheduler.mutex);
  const Context* const context = known(*m, which);
  return context != nullptr ? static_cast<std::uint32_t>(context->id) : 0;
}

std::uint32_t stream_id(CUcontext in, CUstream which, bool per_thread) {
  Machine* const m = machine();
  if (m == nullptr) return 0;
  const Lock lock(m->scheduler.mutex);
  Context* context = known(*m, in);
  if (in == nullptr && !context_stack().empty()) context = context_stack().back();
  const StreamPtr stream = m->stream(which, per_thread, context);
  return stream != nullptr && (in == nullptr || stream->context == context) ? stream->id : 0;
}

void begin_runtime_call() {
  activity_feed().begin_runtime_call();
}
void end_runtime_call() {
  activity_feed().end_runtime_call();
}

}  // namespace

const ActivityTable& activity_table() {
  static const ActivityTable table{
      sizeof table, listen, now, wait_for_all, context_id, stream_id, begin_runtime_call, end_runtime_call};
  return table;
}

}  // namespace softgpu

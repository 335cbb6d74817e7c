#include "softgpu/driver/activity.h"

#include "softgpu/driver/machine.h"

namespace softgpu {

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

std::int64_t now() {
  Machine* const m = machine();
  if (m == nullptr) return 0;
  const Lock lock(m->scheduler.mutex);
  return m->scheduler.now;
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

}  // namespace

const ActivityTable& activity_table() {
  static const ActivityTable table{sizeof table, listen, now, wait_for_all, context_id, stream_id};
  return table;
}

}  // namespace softgpu

#include "softgpu/driver/order/scheduler.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "softgpu/driver/model/cost.h"
#include "softgpu/driver/order/capture.h"
#include "softgpu/driver/terms/context.h"

namespace softgpu {
namespace {

thread_local bool inside_host_function = false;

// How long a submission waits for its host function, in real time. One that returns within it gives virtual
// times that do not depend on the machine's load.
constexpr auto grace = std::chrono::milliseconds(10);
constexpr auto gate_period = std::chrono::microseconds(100);

// About as many as a channel of the real driver takes.
constexpr std::size_t most_launches_ahead = 1024;

}  // namespace

bool in_host_function() {
  return inside_host_function;
}

Scheduler::Scheduler(const Model& model, const Noise& noise, Checker& checker, Provenance* provenance,
                     HostGuard& guard, Violations& violations, std::optional<std::uint64_t> seed)
    : model_(model),
      noise_(noise),
      checker_(checker),
      provenance_(provenance),
      guard_(guard),
      violations_(violations),
      links_(model) {
  if (seed) random_.emplace(*seed);
}

Access Scheduler::host_access(const char* name, std::uint64_t call) {
  return Access{name, call, host_.tick(host_agent), host_agent, 0};
}

void Scheduler::host_follows(const VectorClock& clock, Nanoseconds time) {
  host_.join(clock);
  guard_.release(host_);
  now = std::max(now, time);
}

StreamPtr Scheduler::add_stream(Context* context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->id = next_id_++;
  stream->context = context;
  stream->device = context->device;
  stream->flags = flags;
  stream->priority = priority;
  stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  sweep();
  if (!spare_.empty()) {
    stream->agent = spare_.back();
    spare_.pop_back();
  } else {
    stream->agent = next_agent_++;
  }
  stream->clock = host_;
  stream->time = now;
  streams_.push_back(stream);
  return stream;
}

void Scheduler::retire(const StreamPtr& stream) {
  stream->destroyed = true;
  sweep();
}

// Forgets destroyed streams once the host has seen all they did, so that their agents can be used again.
void Scheduler::sweep() {
  std::erase_if(streams_, [&](const StreamPtr& stream) {
    const bool gone = stream->destroyed && stream->idle() && !stream->in_host_function &&
                      stream->time <= now && host_.get(stream->agent) >= stream->clock.get(stream->agent);
    if (gone) spare_.push_back(stream->agent);
    return gone;
  });
}

std::vector<StreamPtr> Scheduler::streams_of(const Context* context) const {
  std::vector<StreamPtr> found;
  for (const StreamPtr& stream : streams_) {
    if (context == nullptr || stream->context == context) found.push_back(stream);
  }
  return found;
}

// The streams whose work a wait on `stream` includes.
std::vector<StreamPtr> Scheduler::with_blocking(const StreamPtr& stream) const {
  std::vector<StreamPtr> all{stream};
  if (!stream->legacy) return all;
  for (const StreamPtr& other : streams_) {
    if (other != stream && other->blocking && other->context == stream->context) all.push_back(other);
  }
  return all;
}

// Work in the legacy stream follows all work of the blocking streams, and theirs follows it.
void Scheduler::add_legacy_dependencies(const StreamPtr& stream, Work& work) const {
  if (!stream->blocking) return;
  for (const StreamPtr& other : streams_) {
    if (other == stream || !other->blocking || other->context != stream->context) continue;
    if (stream->legacy || other->legacy) work.after.push_back({nullptr, other, other->submitted});
  }
}

// Work in the legacy stream would have to follow what is not carried out. Whoever tries spoils the capture.
bool Scheduler::waits_for_captured(const Stream& stream) const {
  bool found = false;
  for (const StreamPtr& other : streams_) {
    if (!stream.legacy || !other->blocking || other->context != stream.context || !other->capture) continue;
    other->capture->valid = false;
    found = true;
  }
  return found;
}

CUresult Scheduler::submit(Lock& lock, const StreamPtr& stream, Work work) {
  if (violations_.sticky()) return CUDA_SUCCESS;
  if (stream->capture) return stream->capture->take(*stream, std::move(work));
  if (waits_for_captured(*stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  host_.tick(host_agent);
  work.submitted.join(host_);
  work.submit_time = std::max(work.submit_time, now);
  work.sequence = ++stream->submitted;
  add_legacy_dependencies(stream, work);
  const bool calls_host = static_cast<bool>(work.host_function);
  if (work.launch) ++engines_[static_cast<std::size_t>(stream->device)].launches_waiting;
  stream->queue.push_back(std::move(work));
  pending_.insert(stream);
  progress();
  if (calls_host && !random_) {
    changed_.wait_for(lock, grace, [&] { return stream->idle() || violations_.sticky(); });
  }
  return CUDA_SUCCESS;
}

CUresult Scheduler::record(Lock& lock, const StreamPtr& stream, const RecordPtr& record, const char* name,
                           std::uint64_t call) {
  if (stream->capture) return stream->capture->note(*stream, *record);
  if (passes_at_once(*stream)) {
    host_.tick(host_agent);
    stream->clock.join(host_);
    stream->time = std::max(stream->time, now);
    stream->clock.tick(stream->agent);
    stream->executed = ++stream->submitted;
    pass(*stream, *record);
    return CUDA_SUCCESS;
  }
  Work work;
  work.by.name = name;
  work.by.call = call;
  work.record = record;
  return submit(lock, stream, std::move(work));
}

// Whether a record that is submitted now would be reached with nothing else to be done first.
bool Scheduler::passes_at_once(const Stream& stream) const {
  return !random_ && !violations_.sticky() && !stream.blocking && stream.idle() && pending_.empty();
}

void Scheduler::pass(Stream& stream, Record& record) const {
  stream.time += model_.event_gap;
  record.clock = stream.clock;
  record.time = stream.time;
  record.done = true;
}

bool Scheduler::ready(Stream& stream) const {
  if (stream.queue.empty() || stream.in_host_function) return false;
  const Work& head = stream.queue.front();
  for (const Dependency& needed : head.after) {
    if (needed.record && !needed.record->done) return false;
    if (needed.stream && needed.stream->executed < needed.sequence) return false;
  }
  return !head.gate || head.gate();
}

void Scheduler::progress() {
  if (violations_.sticky()) return drop_everything();
  if (!random_) {
    run_everything();
  } else {
    // Leave some work lying, so that others can overtake it.
    for (auto steps = (*random_)() % 4; steps > 0 && run_one(); --steps) {
    }
  }
  if (any_gate()) start_thread();
  changed_.notify_all();
}

void Scheduler::run_everything() {
  while (!violations_.sticky()) {
    StreamPtr first;
    for (const StreamPtr& stream : pending_) {
      if (ready(*stream) && (!first || stream->queue.front().by.call < first->queue.front().by.call))
        first = stream;
    }
    if (!first) return;
    step(first);
  }
  drop_everything();
}

bool Scheduler::run_one() {
  std::vector<StreamPtr> able;
  for (const StreamPtr& stream : pending_) {
    if (ready(*stream)) able.push_back(stream);
  }
  if (able.empty()) return false;
  // By id, so that a seed means the same in every run.
  std::sort(able.begin(), able.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  step(able[(*random_)() % able.size()]);
  if (violations_.sticky()) drop_everything();
  return !violations_.sticky();
}

// Runs the head of a stream that is ready.
void Scheduler::step(const StreamPtr& stream) {
  if (stream->queue.front().host_function) return start_host_function(stream);
  Work work = std::move(stream->queue.front());
  stream->queue.pop_front();
  execute(*stream, work);
  if (stream->queue.empty()) pending_.erase(stream);
}

bool Scheduler::check(Work& work, Stream& stream, Checker::Landed& landed) {
  if (!checker_.kernel(work.touches, work.by, stream.clock, landed)) return false;
  for (const CopyPart& part : work.copies) {
    if (!checker_.copy(part, work.by, stream.clock)) return false;
  }
  return true;
}

// Each handle waits for the copy engine where that one copies to the host.
void Scheduler::give_access(int device, std::uint64_t handles) {
  for (; handles > 0; --handles)
    now += links_.copies(device, Engine::to_host, now) ? model_.set_access_beside_copies
                                                       : model_.set_access_per_handle;
}

// When a work ends that starts then. What a kernel reaches over the link comes behind its own time.
Nanoseconds Scheduler::end_of(const Work& work, const Checker::Landed& landed, Nanoseconds start) {
  const int device = work.by.device;
  if (work.link_bytes + landed.read + landed.written == 0) return start + work.duration;
  // What comes begins later: it was submitted since, or held back until now.
  links_.forget_before(std::min(work.submit_time, now));
  if (work.link_bytes > 0)
    return links_.carry(device, work.engine, work.engine, start, work.duration, work.link_bytes);
  const Cost cost(model_);
  const Nanoseconds has_read = links_.carry(device, Engine::compute, Engine::to_device, start + work.duration,
                                            cost.reach(landed.read, 0), landed.read);
  return links_.carry(device, Engine::compute, Engine::to_host, has_read, cost.reach(0, landed.written),
                      landed.written);
}

void Scheduler::execute(Stream& stream, Work& work) {
  stream.clock.join(work.submitted);
  Nanoseconds start = std::max(work.submit_time, stream.time);
  for (const Dependency& needed : work.after) {
    // A stream named here is at exactly the point that was asked for, or is ordered behind this work.
    stream.clock.join(needed.record ? needed.record->clock : needed.stream->clock);
    start = std::max(start, needed.record ? needed.record->time : needed.stream->time);
  }
  work.by.agent = stream.agent;
  work.by.stream = stream.id;
  work.by.device = stream.device;
  work.by.epoch = stream.clock.tick(stream.agent);
  Engines& engines = engines_[static_cast<std::size_t>(stream.device)];
  Nanoseconds* const engine = work.engine == Engine::compute     ? &engines.compute_free
                              : work.engine == Engine::to_device ? &engines.to_device_free
                              : work.engine == Engine::to_host   ? &engines.to_host_free
                                                                 : nullptr;
  if (engine != nullptr) start = std::max(start, *engine);
  stream.executed = work.sequence;
  if (work.launch) --engines.launches_waiting;
  Checker::Landed landed;
  if (!check(work, stream, landed)) return;
  work.duration = noise_.over(work.duration, start, stream.id, work.sequence);
  stream.began = start;
  stream.time = end_of(work, landed, start);
  if (engine != nullptr) *engine = stream.time;
  if (work.launch) engines.launches_end.push_back(stream.time);
  run(work);
  if (work.finish) work.finish(work.by, stream);
  if (work.record) pass(stream, *work.record);
}

void Scheduler::run(Work& work) {
  if (work.run || provenance_ != nullptr) {
    const DriverAtWork ours;
    guard_.lift(work.copies);
    if (work.run) work.run();
    if (provenance_ != nullptr) provenance_->apply(work);
  }
  if (!work.copies.empty()) guard_.protect(work.copies, work.by);
}

// Detached: like its scheduler it lasts as long as the process.
void Scheduler::start_thread() {
  if (thread_started_) return;
  thread_started_ = true;
  std::thread([this] { driver_thread(); }).detach();
}

void Scheduler::start_host_function(const StreamPtr& stream) {
  stream->in_host_function = true;
  jobs_.push_back({stream});
  start_thread();
  changed_.notify_all();
}

void Scheduler::driver_thread() {
  inside_host_function = true;
  Lock lock(mutex);
  while (!stopping_) {
    if (jobs_.empty()) {
      if (any_gate()) {
        changed_.wait_for(lock, gate_period);
        if (jobs_.empty() && !stopping_) progress();
      } else {
        changed_.wait(lock);
      }
      continue;
    }
    const StreamPtr stream = jobs_.front().stream;
    jobs_.pop_front();
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    work.duration = model_.host_function;
    const auto call = std::move(work.host_function);
    execute(*stream, work);
    stream->executed = work.sequence - 1;  // not yet
    // The function is the host's: it knows what its stream knew, and the stream then knows what the host did.
    host_.join(stream->clock);
    guard_.release(host_);
    const Nanoseconds submitted_until = now;
    lock.unlock();
    call();
    lock.lock();
    stream->clock.join(host_);
    if (now > submitted_until) stream->time = std::max(stream->time, now);
    stream->executed = work.sequence;
    stream->in_host_function = false;
    if (stream->queue.empty()) pending_.erase(stream);
    progress();
  }
}

bool Scheduler::any_gate() const {
  return std::any_of(pending_.begin(), pending_.end(), [](const StreamPtr& stream) {
    return !stream->queue.empty() && static_cast<bool>(stream->queue.front().gate);
  });
}

// After a violation nothing runs any more; nobody shall wait for it either.
void Scheduler::drop_everything() {
  for (const StreamPtr& stream : pending_) {
    if (stream->in_host_function) continue;
    for (Work& work : stream->queue) {
      if (work.record) work.record->done = true;
    }
    stream->queue.clear();
    stream->executed = stream->submitted;
  }
  std::erase_if(pending_, [](const StreamPtr& stream) { return stream->queue.empty(); });
  for (Engines& engines : engines_) engines.launches_waiting = 0;
  changed_.notify_all();
}

template <typename Done>
void Scheduler::wait_until(Lock& lock, Done done) {
  while (!violations_.sticky()) {
    if (!random_) {
      run_everything();
    } else {
      while (!done() && run_one()) {
      }
    }
    changed_.notify_all();  // what ran here may be what others wait for
    if (violations_.sticky() || done()) return;
    changed_.wait(lock);
  }
}

void Scheduler::wait_for_room(Lock& lock, int device) {
  Engines& engines = engines_[static_cast<std::size_t>(device)];
  if (engines.launches_waiting >= most_launches_ahead)
    wait_until(lock, [&] { return engines.launches_waiting < most_launches_ahead; });
  std::deque<Nanoseconds>& ends = engines.launches_end;
  while (!ends.empty() &&
         (ends.front() <= now || ends.size() + engines.launches_waiting >= most_launches_ahead)) {
    now = std::max(now, ends.front());
    ends.pop_front();
  }
}

void Scheduler::wait(Lock& lock, const StreamPtr& stream) {
  for (const StreamPtr& each : with_blocking(stream)) {
    const std::uint64_t until = each->submitted;
    wait_until(lock, [&] { return each->executed >= until; });
    host_follows(each->clock, each->time);
  }
}

void Scheduler::wait(Lock& lock, const RecordPtr& record) {
  wait_until(lock, [&] { return record->done; });
  host_follows(record->clock, record->time);
}

void Scheduler::wait_context(Lock& lock, const Context* context) {
  for (const StreamPtr& stream : streams_of(context)) {
    const std::uint64_t until = stream->submitted;
    wait_until(lock, [&] { return stream->executed >= until; });
    host_follows(stream->clock, stream->time);
  }
}

bool Scheduler::finished(Lock&, const StreamPtr& stream) {
  if (random_) run_one();
  const std::vector<StreamPtr> all = with_blocking(stream);
  for (const StreamPtr& each : all) {
    if (!each->idle() || each->time > now) return false;
  }
  for (const StreamPtr& each : all) host_follows(each->clock, each->time);
  return true;
}

bool Scheduler::finished(Lock&, const RecordPtr& record) {
  if (random_) run_one();
  if (!record->done || record->time > now) return false;
  host_follows(record->clock, record->time);
  return true;
}

void Scheduler::settle(Lock&) {
  run_everything();
  changed_.notify_all();
}

void Scheduler::stop(Lock&) {
  stopping_ = true;
  changed_.notify_all();
}

}  // namespace softgpu

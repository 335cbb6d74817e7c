#include "cupti/cupti_timer.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "core/exit_order.h"
#include "core/log.h"

namespace pooch::cupti {
namespace {

// Kernels as they come (the other kind, KERNEL, puts them one after another). External ids are written with
// API records only, so the calls of driver and runtime are recorded too.
constexpr CUpti_ActivityKind kinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_RUNTIME,
};

// The runtime's call that this thread is inside. What a driver's call within it launches has the number of
// the runtime's, and no external id that came later than that began (docs/decisions/0079).
struct RuntimeCall {
  unsigned subscription;  // that saw it begin; its end may have had none
  std::uint32_t number;
  unsigned depth;  // 0: none; above 1: libraries that make a replay within it have runtimes of their own
};
constinit thread_local RuntimeCall runtime_call{0, 0, 0};
std::atomic<unsigned> subscription{0};

void CUPTIAPI on_runtime_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API) return;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  const unsigned now = subscription.load(std::memory_order_relaxed);
  if (runtime_call.subscription != now) runtime_call = {now, 0, 0};
  if (call.callbackSite != CUPTI_API_ENTER) {
    if (runtime_call.depth > 0) --runtime_call.depth;
  } else if (++runtime_call.depth == 1) {
    runtime_call.number = call.correlationId;
  }
}

// 0: none.
std::uint32_t number_of_runtime_call() {
  const bool inside =
      runtime_call.subscription == subscription.load(std::memory_order_relaxed) && runtime_call.depth > 0;
  return inside ? runtime_call.number : 0;
}

// In the runtime's call around an op pooch launches too: its own kernels, and copies in its own streams.
bool may_be_the_op(const OpCall& call, const DeviceWork& work) {
  using Kind = DeviceWork::Kind;
  return work.kind == Kind::kernel || (work.kind == Kind::copy && work.stream == call.stream);
}

#define POOCH_CUPTI(library, function, ...) (library).check((library).function(__VA_ARGS__), #function)

}  // namespace

Result<std::unique_ptr<OpTimer>> CuptiTimer::open(std::size_t buffer_bytes) {
  const auto library = open_cupti();
  if (!library) return library.error();
  std::unique_ptr<CuptiTimer> timer(new CuptiTimer(**library));
  if (Status s = timer->start(buffer_bytes); !s) return s.error();
  return std::unique_ptr<OpTimer>(std::move(timer));
}

CuptiTimer::~CuptiTimer() {
  std::vector<OpTime> unwanted;
  (void)stop(unwanted);
}

// The subscription comes first: it is what tells that another profiler is at work, and keeps others away.
Status CuptiTimer::start(std::size_t buffer_bytes) {
  ++subscription;
  char holder[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = {};
  CUpti_SubscriberParams params = {};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.subscriberName = "pooch";
  params.oldSubscriberName = holder;
  params.oldSubscriberSize = sizeof holder;
  const CUptiResult subscribed = cupti_.cuptiSubscribe_v2(&subscriber_, on_runtime_call, nullptr, &params);
  if (subscribed == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    subscriber_ = nullptr;
    return Error{ErrorCode::not_supported,
                 fmt::format("CUPTI is in use by {}", holder[0] != '\0' ? holder : "another profiler")};
  }
  if (Status s = cupti_.check(subscribed, "cuptiSubscribe_v2"); !s) {
    subscriber_ = nullptr;
    return s;
  }
  // CUPTI's own buffers beside the device's memory rather than in it: we are here because it is short. Where
  // it does not know the attribute or comes too late for it, they are in the device.
  set(CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, 1);
  // Else it clears each buffer in the thread whose call needs a new one. The inbox's come cleared.
  set(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 1);
  RecordInbox::instance().open(cupti_.cuptiActivityGetNextRecord, buffer_bytes);
  if (Status s =
          POOCH_CUPTI(cupti_, cuptiActivityRegisterCallbacks, RecordInbox::request, RecordInbox::complete);
      !s) {
    return s;
  }
  for (const CUpti_ActivityKind kind : kinds) {
    if (Status s = POOCH_CUPTI(cupti_, cuptiActivityEnable, kind); !s) return s;
    enabled_.push_back(kind);
  }
  if (Status s = POOCH_CUPTI(cupti_, cuptiEnableDomain, 1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API); !s)
    return s;
  renew_exit();  // CUPTI ends with handlers of its own, and a timer that runs still is stopped at exit
  return Done{};
}

void CuptiTimer::set(CUpti_ActivityAttribute attribute, std::uint8_t value) {
  std::size_t bytes = sizeof value;
  (void)cupti_.cuptiActivitySetAttribute(attribute, &bytes, &value);
}

// 0: CUPTI does not know it.
std::uint32_t CuptiTimer::number_of(StreamHandle stream) const {
  const bool per_thread = stream == StreamHandle::per_thread;
  const bool named = !per_thread && stream != StreamHandle::legacy;
  std::uint32_t number = 0;
  const CUptiResult told = cupti_.cuptiGetStreamIdEx(
      nullptr, named ? reinterpret_cast<CUstream>(stream) : nullptr, per_thread ? 1 : 0, &number);
  return told == CUPTI_SUCCESS ? number : 0;
}

Status CuptiTimer::begin(std::uint64_t op, StreamHandle stream) {
  if (stopped_) return Error{ErrorCode::internal, "an op was begun in a timer that has stopped"};
  if (const std::uint32_t around = number_of_runtime_call(); around != 0)
    RecordInbox::instance().note({around, op, true, number_of(stream)});
  return POOCH_CUPTI(cupti_, cuptiActivityPushExternalCorrelationId, RecordInbox::op_kind, op);
}

Status CuptiTimer::end(std::uint64_t op, StreamHandle) {
  std::uint64_t popped = op;
  if (Status s = POOCH_CUPTI(cupti_, cuptiActivityPopExternalCorrelationId, RecordInbox::op_kind, &popped);
      !s)
    return s;
  if (popped == op) return Done{};
  return Error{ErrorCode::internal, fmt::format("op {} ended where op {} had begun", op, popped)};
}

void CuptiTimer::fetch() {
  Delivery delivery = RecordInbox::instance().take();
  const auto earlier = [](const OpCall& a, const OpCall& b) {
    return std::pair(a.correlation, a.op) < std::pair(b.correlation, b.op);
  };
  const auto old = static_cast<std::ptrdiff_t>(calls_.size());
  calls_.insert(calls_.end(), delivery.calls.begin(), delivery.calls.end());
  // What was there before is in order.
  if (!std::is_sorted(calls_.begin() + std::max<std::ptrdiff_t>(old - 1, 0), calls_.end(), earlier))
    std::sort(calls_.begin(), calls_.end(), earlier);
  unmatched_.insert(unmatched_.end(), delivery.work.begin(), delivery.work.end());
  // Work that is no timed op's tells as well that what came before it has ended.
  for (const DeviceWork& work : delivery.work) {
    std::uint64_t& newest = newest_ns_[work.stream];
    newest = std::max(newest, work.start_ns);
  }
  untimed_ += delivery.untimed;
  cut_ = cut_ || delivery.cut;
}

// Work and calls come in any order. What belongs to no op stays; it ends with the timer.
void CuptiTimer::match() {
  std::erase_if(unmatched_, [this](const DeviceWork& work) { return belongs(work); });
}

std::vector<std::pair<std::uint64_t, CuptiTimer::Span>>::iterator CuptiTimer::span_of(std::uint64_t op) {
  return std::lower_bound(spans_.begin(), spans_.end(), op,
                          [](const auto& entry, std::uint64_t other) { return entry.first < other; });
}

// Of the ops within one call of the runtime the first that has no work yet; else the last.
std::vector<OpCall>::iterator CuptiTimer::next_within(std::vector<OpCall>::iterator call) {
  const std::uint32_t correlation = call->correlation;
  while (call != calls_.begin() && std::prev(call)->correlation == correlation) --call;
  for (; std::next(call) != calls_.end() && std::next(call)->correlation == correlation; ++call) {
    const auto span = span_of(call->op);
    if (span == spans_.end() || span->first != call->op) break;
  }
  return call;
}

// Adds it to the span of the op that launched it.
bool CuptiTimer::belongs(const DeviceWork& work) {
  // Nearly always it is the call after the last one that was found.
  auto call = calls_.begin() + static_cast<std::ptrdiff_t>(next_call_);
  if (next_call_ >= calls_.size() || call->correlation != work.correlation) {
    call = std::lower_bound(calls_.begin(), calls_.end(), work.correlation,
                            [](const OpCall& c, std::uint32_t id) { return c.correlation < id; });
    if (call == calls_.end() || call->correlation != work.correlation) return false;
  }
  next_call_ = static_cast<std::size_t>(call - calls_.begin()) + 1;
  const bool among_ours = call->around && !work.graph;
  if (among_ours && !may_be_the_op(*call, work)) return true;
  if (call->around) call = next_within(call);
  if (!zero_ns_) zero_ns_ = work.start_ns;
  auto at = spans_.end();
  if (!spans_.empty() && spans_.back().first >= call->op) at = span_of(call->op);
  if (at == spans_.end() || at->first != call->op)
    at = spans_.insert(at, {call->op, Span{work.start_ns, work.end_ns, work.stream, 0}});
  Span& span = at->second;
  if (span.given) return ++late_ > 0;
  if (among_ours) {
    // Replays come ahead of the op in the same call.
    if (work.start_ns >= span.start_ns) span = {work.start_ns, work.end_ns, work.stream, round_};
    return true;
  }
  span.start_ns = std::min(span.start_ns, work.start_ns);
  span.end_ns = std::max(span.end_ns, work.end_ns);
  span.round = round_;
  return true;
}

// Later work of its stream has come, so that its own has ended.
bool CuptiTimer::followed(const Span& span) const {
  const auto newest = newest_ns_.find(span.stream);
  return newest != newest_ns_.end() && newest->second >= span.end_ns;
}

void CuptiTimer::give(std::uint64_t op, Span& span, std::vector<OpTime>& into) {
  const auto microseconds = [this](std::uint64_t ns) {
    return static_cast<double>(static_cast<std::int64_t>(ns - *zero_ns_)) / 1000;
  };
  into.push_back({op, microseconds(span.start_ns), microseconds(span.end_ns)});
  span.given = true;
}

// How many records an op will have is not known. It is taken for whole when later work of its stream has
// come, and nothing more of its own since the last time: CUPTI gives buffers of several threads back in any
// order.
Status CuptiTimer::collect(std::vector<OpTime>& into) {
  if (stopped_) return Done{};
  ++round_;
  if (Status s = POOCH_CUPTI(cupti_, cuptiActivityFlushAll, 0); !s) return s;
  fetch();
  match();
  for (auto& [op, span] : spans_)
    if (!span.given && span.round < round_ && followed(span)) give(op, span, into);
  return Done{};
}

void CuptiTimer::disable() {
  for (const CUpti_ActivityKind kind : enabled_) {
    if (Status s = POOCH_CUPTI(cupti_, cuptiActivityDisable, kind); !s) log::debug("{}", s.error().message);
  }
  enabled_.clear();
}

// cuptiFinalize is not called: it is safe only where no other thread is inside CUDA or CUPTI (it is meant for
// the exit of an API callback), and it waits for every context. Without kinds and subscriber nothing is
// recorded.
Status CuptiTimer::stop(std::vector<OpTime>& last) {
  if (std::exchange(stopped_, true)) return Done{};
  if (subscriber_ == nullptr) return Done{};
  Status flushed = Done{};
  if (!enabled_.empty()) {
    flushed = POOCH_CUPTI(cupti_, cuptiActivityFlushAll, 0);
    disable();
    fetch();
    // Takes our buffers back, with what had not finished marked so or without times.
    if (Status s = POOCH_CUPTI(cupti_, cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); !s)
      flushed = s;
  }
  const std::uint64_t lost = untimed_;
  fetch();
  match();
  cut_ = cut_ || untimed_ > lost;
  for (auto& [op, span] : spans_)
    if (!span.given && (!cut_ || followed(span))) give(op, span, last);
  std::size_t dropped = 0;
  if (cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) != CUPTI_SUCCESS) dropped = 0;
  if (dropped + lost > 0) log::warn("CUPTI lost {} records: some ops have no time", dropped + lost);
  if (late_ > 0) log::debug("CUPTI gave {} records of ops that had been taken for whole", late_);
  RecordInbox::instance().close();
  set(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 0);  // as others expect it
  spans_.clear();
  unmatched_.clear();
  calls_.clear();
  next_call_ = 0;
  const Status gone = POOCH_CUPTI(cupti_, cuptiUnsubscribe, std::exchange(subscriber_, nullptr));
  return flushed ? gone : flushed;
}

}  // namespace pooch::cupti

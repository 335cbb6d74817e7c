#include "softgpu/cupti/recorder.h"

#include <pthread.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "softgpu/cupti/driver.h"
#include "softgpu/cupti/records.h"
#include "softgpu/per_thread.h"

namespace softgpu::cupti {
namespace {

using Kinds = std::uint64_t;
using Ids = std::array<std::vector<std::uint64_t>, CUPTI_EXTERNAL_CORRELATION_KIND_SIZE>;  // of one thread

constexpr Kinds bit(CUpti_ActivityKind kind) {
  return Kinds{1} << kind;
}
constexpr Kinds kernel_kinds = bit(CUPTI_ACTIVITY_KIND_KERNEL) | bit(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
constexpr Kinds known_kinds = kernel_kinds | bit(CUPTI_ACTIVITY_KIND_MEMCPY) |
                              bit(CUPTI_ACTIVITY_KIND_MEMSET) | bit(CUPTI_ACTIVITY_KIND_DRIVER) |
                              bit(CUPTI_ACTIVITY_KIND_RUNTIME) |
                              bit(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);

bool known(CUpti_ActivityKind kind) {
  return kind > CUPTI_ACTIVITY_KIND_INVALID && kind < CUPTI_ACTIVITY_KIND_COUNT &&
         (known_kinds & bit(kind)) != 0;
}

// The vendor's default for thread ids on Linux, in as many bits as a record has.
std::uint32_t this_thread() {
  return static_cast<std::uint32_t>(pthread_self());
}

void on_call(const CallActivity& call) {
  Recorder::instance().note(call);
}
void on_work(const WorkActivity& work) {
  Recorder::instance().note(work);
}
void on_runtime_call(bool begins, std::uint32_t correlation) {
  Recorder::instance().note_runtime_call(begins, correlation);
}
// A driver may have changed so that they are not.
bool tells_ids() {
  static const char* const said = std::getenv("SOFTGPU_CUPTI_IDS");
  return said == nullptr || std::strcmp(said, "off") != 0;
}

constexpr ActivitySink sink{on_call, on_work, on_runtime_call};

}  // namespace

Recorder& Recorder::instance() {
  static auto* const recorder = new Recorder;
  return *recorder;
}

void Recorder::tell_driver() {
  const Kinds kinds = kinds_;
  unsigned wanted = 0;
  if ((kinds & kernel_kinds) != 0) wanted |= activity_kernels;
  if ((kinds & bit(CUPTI_ACTIVITY_KIND_MEMCPY)) != 0) wanted |= activity_copies;
  if ((kinds & bit(CUPTI_ACTIVITY_KIND_MEMSET)) != 0) wanted |= activity_sets;
  if ((kinds & (bit(CUPTI_ACTIVITY_KIND_DRIVER) | bit(CUPTI_ACTIVITY_KIND_RUNTIME))) != 0)
    wanted |= activity_calls;
  driver()->listen(&sink, wanted);
}

CUptiResult Recorder::enable(CUpti_ActivityKind kind) {
  if (driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  if (!known(kind)) return CUPTI_ERROR_INVALID_KIND;
  const std::lock_guard<std::mutex> lock(mutex_);
  // Either kernels one by one or kernels as they come.
  if ((bit(kind) & kernel_kinds) != 0 && (kinds_ & kernel_kinds & ~bit(kind)) != 0)
    return CUPTI_ERROR_NOT_COMPATIBLE;
  kinds_ |= bit(kind);
  buffers_.start();
  tell_driver();
  return CUPTI_SUCCESS;
}

CUptiResult Recorder::disable(CUpti_ActivityKind kind) {
  if (driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  if (!known(kind)) return CUPTI_ERROR_INVALID_KIND;
  const std::lock_guard<std::mutex> lock(mutex_);
  kinds_ &= ~bit(kind);
  tell_driver();
  return CUPTI_SUCCESS;
}

void Recorder::finalize() {
  const std::lock_guard<std::mutex> lock(mutex_);
  driver()->wait_for_all();
  kinds_ = 0;
  driver()->listen(nullptr, 0);
  callback_ = nullptr;
  buffers_.stop();
}

std::vector<std::uint64_t>* Recorder::external_ids(CUpti_ExternalCorrelationKind kind) {
  auto& ids = per_thread<Ids>();
  if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
    return nullptr;
  return &ids[kind];
}

void Recorder::call_back(CUpti_CallbackFunc function, void* user) {
  callback_user_ = user;
  callback_ = function;
}

void Recorder::note_runtime_call(bool begins, std::uint32_t correlation) {
  const CUpti_CallbackFunc function = callback_;
  if (function == nullptr) return;
  CUpti_CallbackData data = {};
  data.callbackSite = begins ? CUPTI_API_ENTER : CUPTI_API_EXIT;
  data.correlationId = correlation;
  function(callback_user_, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_INVALID, &data);
}

// An external id is told only together with a call's own record, and goes before it.
void Recorder::note(const CallActivity& call) {
  const std::uint32_t thread = this_thread();
  if (collects(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) && tells_ids()) {
    const Ids& of_kinds = per_thread<Ids>();
    for (std::size_t k = 0; k < of_kinds.size(); ++k) {
      const std::vector<std::uint64_t>& ids = of_kinds[k];
      if (ids.empty()) continue;
      const auto kind = static_cast<CUpti_ExternalCorrelationKind>(k);
      const CUpti_ActivityExternalCorrelation record{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, kind,
                                                     ids.back(), call.correlation, 0};
      buffers_.put(&record, sizeof record, call.end, call.end, thread);
    }
  }
  if (!collects(call.name != nullptr ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME)) return;
  const CUpti_ActivityAPI record = call_record(call, thread);
  buffers_.put(&record, sizeof record, call.end, call.end, thread);
}

void Recorder::note(const WorkActivity& work) {
  const auto put = [&](const auto& record) {
    buffers_.put(&record, sizeof record, work.end, work.now, work.thread);
  };
  switch (work.kind) {
    case activity_kernels:
      return put(kernel_record(collects(CUPTI_ACTIVITY_KIND_KERNEL) ? CUPTI_ACTIVITY_KIND_KERNEL
                                                                    : CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                               work));
    case activity_copies:
      return put(copy_record(work));
    case activity_sets:
      return put(set_record(work));
    case activity_calls:
      return;
  }
}

}  // namespace softgpu::cupti

#include "interpose/calls/capture.h"

#include "interpose/hooks/driver_api.h"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "interpose/hooks/captures.h"
#include "interpose/hooks/errors.h"
#include "interpose/hooks/libraries.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cuda, cuStreamIsCapturing);
POOCH_REAL(cuda, cuStreamGetCaptureInfo_v2);
POOCH_REAL(cuda, cuEventCreate);
POOCH_REAL(cuda, cuEventDestroy_v2);
POOCH_REAL(cuda, cuEventRecord);
POOCH_REAL(cuda, cuStreamWaitEvent);

struct Captures {
  std::mutex mutex;                // a leaf
  std::set<StreamHandle> streams;  // in which capture was begun and has not been ended
  std::map<cuuint64_t, std::shared_ptr<GraphMemory>> memories;  // by the driver's number
  std::map<cuuint64_t, std::set<StreamHandle>> freed_in;        // likewise
};
Captures& book() {
  static auto* const one = new Captures;  // never destroyed, like all that hooks use
  return *one;
}

// A question changes nothing, so one that fails is put once more.
template <class Ask>
CUresult ask_twice(Ask&& ask) {
  const CUresult first = ask();
  return first == CUDA_SUCCESS || first == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? first : ask();
}

bool is_capturing(const Scope& scope, StreamHandle stream) {
  auto* const ask = real_cuStreamIsCapturing.get(scope);
  if (ask == nullptr) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult answer = ask_twice([&] { return ask(reinterpret_cast<CUstream>(stream), &status); });
  if (answer == CUDA_SUCCESS) return status != CU_STREAM_CAPTURE_STATUS_NONE;
  // The legacy stream answers so while another stream captures; it does not capture itself.
  if (answer == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return false;
  const std::lock_guard lock(book().mutex);
  return book().streams.contains(stream);
}

// The driver's number of the capture that the stream is part of; 0: of none that goes on. Nothing: the driver
// does not say.
std::optional<cuuint64_t> capture_number(const Scope& scope, StreamHandle stream) {
  auto* const ask = real_cuStreamGetCaptureInfo_v2.get_if_present(scope);
  if (ask == nullptr) return 0;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t number = 0;
  const CUresult answer = ask_twice(
      [&] { return ask(reinterpret_cast<CUstream>(stream), &status, &number, nullptr, nullptr, nullptr); });
  if (answer == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return 0;
  if (answer != CUDA_SUCCESS) return std::nullopt;
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? number : 0;
}

}  // namespace

void note_capture(const Scope& scope, StreamHandle stream) {
  const bool now = is_capturing(scope, stream);
  const std::lock_guard lock(book().mutex);
  if (now) {
    book().streams.insert(stream);
  } else {
    book().streams.erase(stream);
  }
  captures = book().streams.size();
}

std::uint64_t capture_ending(const Scope& scope, StreamHandle stream) {
  return capture_number(scope, stream).value_or(0);
}

void note_captured_free(const Scope& scope, StreamHandle stream) {
  const auto number = capture_number(scope, stream);
  if (!number || *number == 0) return;
  const std::lock_guard lock(book().mutex);
  book().freed_in[*number].insert(stream);
}

void join_captured_frees(const Scope& scope, std::uint64_t number, StreamHandle stream) {
  std::set<StreamHandle> streams;
  {
    const std::lock_guard lock(book().mutex);
    const auto found = book().freed_in.find(number);
    if (found == book().freed_in.end()) return;
    streams = std::move(found->second);
    book().freed_in.erase(found);
  }
  auto* const create = real_cuEventCreate.get(scope);
  auto* const record = real_cuEventRecord.get(scope);
  auto* const wait = real_cuStreamWaitEvent.get(scope);
  auto* const destroy = real_cuEventDestroy_v2.get(scope);
  if (create == nullptr || record == nullptr || wait == nullptr || destroy == nullptr) return;
  for (const StreamHandle each : streams) {
    if (each == stream) continue;
    CUevent event = nullptr;
    if (create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return;
    // Where this fails, so does the call that ends the capture.
    if (record(event, reinterpret_cast<CUstream>(each)) == CUDA_SUCCESS)
      (void)wait(reinterpret_cast<CUstream>(stream), event, 0);
    (void)destroy(event);
  }
}

std::shared_ptr<GraphMemory> take_captured(std::uint64_t number) {
  const std::lock_guard lock(book().mutex);
  const auto found = book().memories.find(number);
  if (found == book().memories.end()) return nullptr;
  auto memory = std::move(found->second);
  book().memories.erase(found);
  return memory;
}

bool captured(const Scope& scope, StreamHandle stream) {
  return any_capture() && is_capturing(scope, stream);
}

void forget_capture(StreamHandle stream) {
  const std::lock_guard lock(book().mutex);
  book().streams.erase(stream);
  captures = book().streams.size();
}

Status hold_captured(const Scope& scope, runtime::Session& session, const char* function, StreamHandle stream,
                     std::span<const Access> accesses, bool unforeseen) {
  const auto number = capture_number(scope, stream);
  if (!number) {
    const Error unknown{ErrorCode::device, "the driver does not say which capture it is part of"};
    report_refused(function, unknown);
    return unknown;
  }
  if (*number == 0) return Done{};  // no graph will come of it
  std::shared_ptr<GraphMemory> memory;
  {
    const std::lock_guard lock(book().mutex);
    auto& all = book().memories[*number];
    if (all == nullptr) all = std::make_shared<GraphMemory>(session);
    memory = all;
  }
  const Status held = memory->hold(accesses, unforeseen);
  if (!held && held.error().code == ErrorCode::out_of_memory)
    report_refused(function, held.error());  // anything else is said already
  return held;
}

}  // namespace pooch::interpose

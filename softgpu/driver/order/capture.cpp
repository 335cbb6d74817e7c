#include "softgpu/driver/order/capture.h"

#include <algorithm>
#include <string_view>

namespace softgpu {

CUresult Capture::take(Stream& stream, Work work) {
  if (!valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  work.after.clear();
  ++stream.captured[stream.id];
  nodes.push_back(std::move(work));
  return CUDA_SUCCESS;
}

CUresult Capture::note(const Stream& stream, Record& record) {
  if (!valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  record.capture = stream.capture;
  record.captured = stream.captured;
  return CUDA_SUCCESS;
}

CUresult join_capture(const StreamPtr& stream, Record& record) {
  if (!record.capture) return stream->capture->spoilt(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  if (!record.capture->active) return CUDA_ERROR_CAPTURED_EVENT;
  if (!record.capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->legacy) return record.capture->spoilt(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  if (stream->capture && stream->capture != record.capture) {
    stream->capture->valid = false;
    return record.capture->spoilt(CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  stream->capture = record.capture;
  record.capture->streams.insert(stream);
  for (const auto& [id, count] : record.captured) {
    std::size_t& follows = stream->captured[id];
    follows = std::max(follows, count);
  }
  return CUDA_SUCCESS;
}

CUresult Captures::begin(const StreamPtr& stream, CUstreamCaptureMode mode) {
  if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->id = ++begun_;
  capture->streams.insert(stream);
  stream->capture = capture;
  active_.push_back(std::move(capture));
  return CUDA_SUCCESS;
}

CUresult Captures::end(const StreamPtr& stream, std::vector<Work>* nodes) {
  const CapturePtr capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return capture->spoilt(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id())
    return capture->spoilt(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  // Whatever was forked off must have been joined again.
  bool joined = true;
  for (const StreamPtr& each : capture->streams)
    joined = joined && stream->captured[each->id] >= each->captured[each->id];
  for (const StreamPtr& each : capture->streams) {
    each->capture = nullptr;
    each->captured.clear();
  }
  capture->active = false;
  capture->streams.clear();
  capture->origin = nullptr;
  capture->free.clear();
  std::erase(active_, capture);
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *nodes = std::move(capture->nodes);
  return CUDA_SUCCESS;
}

bool Captures::admit(const char* function) {
  if (active_.empty() || capture_mode_of_thread() == CU_STREAM_CAPTURE_MODE_RELAXED) return true;
  // Those that wait for the device, or may; of the driver's own list little is known.
  constexpr std::string_view unsafe[] = {"cuMemAlloc_v2",
                                         "cuMemAllocPitch_v2",
                                         "cuMemAllocManaged",
                                         "cuMemFree_v2",
                                         "cuMemHostAlloc",
                                         "cuMemFreeHost",
                                         "cuMemHostRegister_v2",
                                         "cuMemHostUnregister",
                                         "cuMemCreate",
                                         "cuMemRelease",
                                         "cuMemMap",
                                         "cuMemUnmap",
                                         "cuMemSetAccess",
                                         "cuEventQuery",
                                         "cuEventSynchronize",
                                         "cuStreamQuery",
                                         "cuStreamSynchronize",
                                         "cuCtxSynchronize",
                                         "cuCtxSynchronize_v2",
                                         "cuModuleLoadData"};
  if (std::find(std::begin(unsafe), std::end(unsafe), std::string_view(function)) == std::end(unsafe))
    return true;
  bool admitted = true;
  for (const CapturePtr& capture : active_) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbids = own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                             : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                   capture_mode_of_thread() == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!forbids) continue;
    capture->valid = false;
    admitted = false;
  }
  return admitted;
}

CUstreamCaptureMode& capture_mode_of_thread() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

}  // namespace softgpu

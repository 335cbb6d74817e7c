#include "softgpu/cupti/records.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace softgpu::cupti {
namespace {

// The software driver's own list of its functions names their callback ids too.
CUpti_CallbackId find_callback_id(std::string_view function) {
  static const std::unordered_map<std::string_view, CUpti_CallbackId> ids = {
#define SOFTGPU_ROW(base, version, symbol) {#symbol, CUPTI_DRIVER_TRACE_CBID_##symbol},
#define SOFTGPU_ROW_PER_THREAD(base, version, symbol, variant_version, variant) \
  {#symbol, CUPTI_DRIVER_TRACE_CBID_##symbol}, {#variant, CUPTI_DRIVER_TRACE_CBID_##variant},
#include "softgpu/driver/api/proc_table.def"
#undef SOFTGPU_ROW
#undef SOFTGPU_ROW_PER_THREAD
  };
  const auto found = ids.find(function);
  return found != ids.end() ? found->second : CUpti_CallbackId{CUPTI_DRIVER_TRACE_CBID_INVALID};
}

// By the name's address, which is the same for every call of a function. Under the driver's lock.
CUpti_CallbackId callback_id(const char* function) {
  struct Known {
    const char* function;
    CUpti_CallbackId id;
  };
  static constinit std::array<Known, 256> latest{};
  Known& known = latest[reinterpret_cast<std::uintptr_t>(function) / 8 % latest.size()];
  if (known.function != function) known = {function, find_callback_id(function)};
  return known.id;
}

CUpti_ActivityMemoryKind memory_kind(CopySide side) {
  switch (side) {
    case CopySide::device:
      return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    case CopySide::pinned:
      return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    case CopySide::pageable:
      return CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  }
  return CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN;
}

CUpti_ActivityMemcpyKind copy_kind(CopySide from, CopySide to) {
  const bool from_device = from == CopySide::device, to_device = to == CopySide::device;
  if (from_device) return to_device ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOD : CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  return to_device ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD : CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
}

// What all records of work begin with.
template <class Record>
Record common(CUpti_ActivityKind kind, const WorkActivity& work) {
  Record record = {};
  record.kind = kind;
  record.start = static_cast<std::uint64_t>(work.start);
  record.end = static_cast<std::uint64_t>(work.end);
  record.contextId = work.context;
  record.streamId = work.stream;
  record.correlationId = work.correlation;
  record.graphId = work.graph;
  record.channelID = CUPTI_INVALID_CHANNEL_ID;
  return record;
}

}  // namespace

CUpti_ActivityKernel10 kernel_record(CUpti_ActivityKind kind, const WorkActivity& work) {
  auto record = common<CUpti_ActivityKernel10>(kind, work);
  record.completed = record.end;
  record.gridX = static_cast<std::int32_t>(work.grid[0]);
  record.gridY = static_cast<std::int32_t>(work.grid[1]);
  record.gridZ = static_cast<std::int32_t>(work.grid[2]);
  record.blockX = static_cast<std::int32_t>(work.block[0]);
  record.blockY = static_cast<std::int32_t>(work.block[1]);
  record.blockZ = static_cast<std::int32_t>(work.block[2]);
  record.dynamicSharedMemory = static_cast<std::int32_t>(work.shared_bytes);
  record.gridId = work.correlation;
  record.name = work.name;
  record.queued = CUPTI_TIMESTAMP_UNKNOWN;
  record.submitted = CUPTI_TIMESTAMP_UNKNOWN;
  record.launchType = work.cooperative ? CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE
                                       : CUPTI_ACTIVITY_LAUNCH_TYPE_REGULAR;
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  record.clusterX = record.clusterY = record.clusterZ = 1;
  return record;
}

CUpti_ActivityMemcpy6 copy_record(const WorkActivity& work) {
  auto record = common<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, work);
  record.copyKind = static_cast<std::uint8_t>(copy_kind(work.from, work.to));
  record.srcKind = static_cast<std::uint8_t>(memory_kind(work.from));
  record.dstKind = static_cast<std::uint8_t>(memory_kind(work.to));
  record.flags = work.async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  record.bytes = work.bytes;
  record.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  record.copyCount = 1;
  return record;
}

CUpti_ActivityMemset4 set_record(const WorkActivity& work) {
  auto record = common<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, work);
  record.value = work.value;
  record.bytes = work.bytes;
  record.flags = work.async ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  record.memoryKind = static_cast<std::uint16_t>(memory_kind(work.to));
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  return record;
}

CUpti_ActivityAPI call_record(const CallActivity& call, std::uint32_t thread) {
  CUpti_ActivityAPI record = {};
  record.kind = call.name != nullptr ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
  if (call.name != nullptr) record.cbid = callback_id(call.name);
  record.start = static_cast<std::uint64_t>(call.start);
  record.end = static_cast<std::uint64_t>(call.end);
  static const auto process = static_cast<std::uint32_t>(getpid());  // a child has no device
  record.processId = process;
  record.threadId = thread;
  record.correlationId = call.correlation;
  record.returnValue = call.refused;
  return record;
}

std::size_t record_bytes(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    default:
      return 0;
  }
}

}  // namespace softgpu::cupti

#include "cupti/record_inbox.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace pooch::cupti {
namespace {

using Lock = std::lock_guard<std::mutex>;

// Records lie packed in a buffer of bytes.
template <class Record>
Record as(const CUpti_Activity& record) {
  Record copy;
  std::memcpy(&copy, &record, sizeof copy);
  return copy;
}

// Of interpose/*.ptx.
bool is_own(const char* kernel) {
  return kernel != nullptr &&
         (std::strcmp(kernel, "memory_digest") == 0 || std::strcmp(kernel, "batch_norm") == 0);
}

}  // namespace

void RecordInbox::Release::operator()(std::uint8_t* buffer) const {
  munmap(buffer, bytes);
}

// With its pages there: the calls whose records are written would meet them one by one. Null without memory.
RecordInbox::Buffer RecordInbox::make_buffer(std::size_t bytes) {
  void* const pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return {pages == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(pages), Release{bytes}};
}

RecordInbox& RecordInbox::instance() {
  static auto* const inbox = new RecordInbox;
  return *inbox;
}

void RecordInbox::open(decltype(&cuptiActivityGetNextRecord) next_record, std::size_t buffer_bytes) {
  const Lock lock(mutex_);
  if (buffer_bytes_ != buffer_bytes) spare_.clear();
  buffer_bytes_ = buffer_bytes;
  next_record_ = next_record;
  delivery_ = {};
  open_ = true;
}

void RecordInbox::note(const OpCall& call) {
  const Lock lock(mutex_);
  if (open_) delivery_.calls.push_back(call);
}

Delivery RecordInbox::take() {
  const Lock lock(mutex_);
  return std::exchange(delivery_, {});
}

void RecordInbox::close() {
  const Lock lock(mutex_);
  open_ = false;
  delivery_ = {};
  spare_.clear();
}

void RecordInbox::request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  RecordInbox& inbox = instance();
  const Lock lock(inbox.mutex_);
  *max_records = 0;
  Buffer lent;
  if (!inbox.spare_.empty()) {
    lent = std::move(inbox.spare_.back());
    inbox.spare_.pop_back();
  } else {
    lent = make_buffer(inbox.buffer_bytes_);
  }
  *buffer = lent.get();
  *bytes = lent ? inbox.buffer_bytes_ : 0;
  if (lent) inbox.lent_.push_back(std::move(lent));
}

void RecordInbox::complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t bytes,
                           std::size_t valid) {
  RecordInbox& inbox = instance();
  const Lock lock(inbox.mutex_);
  const auto found = std::find_if(inbox.lent_.begin(), inbox.lent_.end(),
                                  [buffer](const Buffer& lent) { return lent.get() == buffer; });
  if (found == inbox.lent_.end()) return;
  CUpti_Activity* record = nullptr;
  // Ends with the buffer, or at a record that is not finished: only a forced flush gives those away.
  CUptiResult result = CUPTI_SUCCESS;
  while (inbox.open_ && (result = inbox.next_record_(buffer, valid, &record)) == CUPTI_SUCCESS)
    inbox.read(*record);
  if (result == CUPTI_ERROR_INVALID_KIND) inbox.delivery_.cut = true;
  if (inbox.open_ && bytes == inbox.buffer_bytes_) {
    std::memset(buffer, 0, valid);
    inbox.spare_.push_back(std::move(*found));
  }
  inbox.lent_.erase(found);
}

void RecordInbox::read(const CUpti_Activity& record) {
  using Kind = DeviceWork::Kind;
  const auto keep = [this](const auto& work, Kind kind) {
    if (work.start == 0 && work.end == 0) {
      ++delivery_.untimed;
    } else {
      delivery_.work.push_back(
          {work.correlationId, work.streamId, work.start, work.end, kind, work.graphId != 0});
    }
  };
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      const auto kernel = as<CUpti_ActivityKernel10>(record);
      return keep(kernel, is_own(kernel.name) ? Kind::own_kernel : Kind::kernel);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return keep(as<CUpti_ActivityMemcpy6>(record), Kind::copy);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return keep(as<CUpti_ActivityMemset4>(record), Kind::copy);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto external = as<CUpti_ActivityExternalCorrelation>(record);
      if (external.externalKind == op_kind)
        delivery_.calls.push_back({external.correlationId, external.externalId});
      return;
    }
    default:  // API records: only there because external ids come with them
      return;
  }
}

}  // namespace pooch::cupti

// Which kinds are collected, and the way from the driver's account to records in the client's buffers.
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "softgpu/activity.h"
#include "softgpu/cupti/buffers.h"

namespace softgpu::cupti {

class Recorder {
 public:
  // The one of this process; lives as long as it.
  static Recorder& instance();

  CUptiResult enable(CUpti_ActivityKind kind);
  CUptiResult disable(CUpti_ActivityKind kind);
  // Everything off and forgotten, after all work of the device.
  void finalize();

  Buffers& buffers() { return buffers_; }
  // The calling thread's external ids of one kind; null where there is no such kind.
  static std::vector<std::uint64_t>* external_ids(CUpti_ExternalCorrelationKind kind);

  // Whom the runtime's calls are told; null: nobody.
  void call_back(CUpti_CallbackFunc function, void* user);
  void note_runtime_call(bool begins, std::uint32_t correlation);
  void note(const CallActivity& call);
  void note(const WorkActivity& work);

 private:
  void tell_driver();
  bool collects(CUpti_ActivityKind kind) const { return (kinds_ >> kind & 1) != 0; }

  std::mutex mutex_;                     // enable and disable
  std::atomic<std::uint64_t> kinds_{0};  // a bit per kind
  std::atomic<CUpti_CallbackFunc> callback_{nullptr};
  std::atomic<void*> callback_user_{nullptr};
  Buffers buffers_;
};

}  // namespace softgpu::cupti

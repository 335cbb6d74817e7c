// A profiler as small as can be, over the CUPTI API: client buffers, and all records that came back.
#pragma once

#include <cupti.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "tests/softgpu/driver.h"

namespace softgpu_test {

struct Profiler {
  std::mutex mutex;
  std::vector<CUpti_ActivityKernel10> kernels;
  std::vector<CUpti_ActivityMemcpy6> copies;
  std::vector<CUpti_ActivityMemset4> sets;
  std::vector<CUpti_ActivityAPI> calls;
  std::vector<CUpti_ActivityExternalCorrelation> externals;
  std::vector<CUpti_ActivityKind> order;  // of all
  CUptiResult last = CUPTI_SUCCESS;       // why the last buffer's reading ended
  std::size_t buffer_bytes = 1 << 20, max_records = 0;
  int requested = 0, completed = 0;
  bool refuse = false;
};

inline Profiler& profiler() {
  static Profiler instance;
  return instance;
}

inline void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  Profiler& p = profiler();
  const std::lock_guard<std::mutex> lock(p.mutex);
  ++p.requested;
  *buffer = p.refuse ? nullptr : static_cast<std::uint8_t*>(std::aligned_alloc(8, p.buffer_bytes));
  *bytes = p.refuse ? 0 : p.buffer_bytes;
  *max_records = p.max_records;
}

inline void read(const CUpti_Activity* record) {
  Profiler& p = profiler();
  p.order.push_back(record->kind);
  const auto keep = [record](auto& into) {
    into.emplace_back();
    std::memcpy(&into.back(), record, sizeof into.back());
  };
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return keep(p.kernels);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return keep(p.copies);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return keep(p.sets);
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return keep(p.calls);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return keep(p.externals);
    default:
      ADD_FAILURE() << "a record of kind " << record->kind;
  }
}

inline void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                                 std::size_t valid) {
  Profiler& p = profiler();
  const std::lock_guard<std::mutex> lock(p.mutex);
  ++p.completed;
  CUpti_Activity* record = nullptr;
  while ((p.last = cuptiActivityGetNextRecord(buffer, valid, &record)) == CUPTI_SUCCESS) read(record);
  std::free(buffer);
}

inline void enable(std::initializer_list<CUpti_ActivityKind> kinds) {
  ASSERT_EQ(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), CUPTI_SUCCESS);
  for (const CUpti_ActivityKind kind : kinds) ASSERT_EQ(cuptiActivityEnable(kind), CUPTI_SUCCESS) << kind;
}
inline void finish_and_flush() {
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
}

}  // namespace softgpu_test

// The client's buffers: asked for when there is a record and no room, filled, and handed back when they are
// full or flushed. A buffer goes back only once all its records are complete, that is when the host's virtual
// clock has passed their ends; a forced flush gives it back anyway, with what is incomplete marked as
// invalid.
//
// Full buffers are handed back by a thread of this library, as the vendor's are. Callbacks run without our
// lock, so that they may call this library.
#pragma once

#include <cupti.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace softgpu::cupti {

class Buffers {
 public:
  void use(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);
  bool ready() const;  // somebody takes records

  // One record, complete at `end`. Not from two threads at a time (the driver's lock sees to that). `thread`:
  // whose buffer it goes to, where each thread has its own.
  void put(const void* record, std::size_t bytes, std::int64_t end, std::int64_t now, std::uint32_t thread);
  // Returns when everything that may go back has gone.
  void flush(std::int64_t now, bool forced);
  std::size_t take_dropped();

  void start();  // the thread
  // Ends the thread and forgets client and buffers; records that were not flushed are lost.
  void stop();

  bool per_thread = true;  // CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER
  bool zeroed = false;     // CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER: the client's are

 private:
  struct Late {
    std::size_t offset;
    std::int64_t end;
  };
  struct Buffer {
    std::uint8_t* data = nullptr;
    std::size_t size = 0, used = 0;
    std::size_t records = 0, max_records = 0;  // 0: as many as fit
    std::int64_t end = 0;                      // of its last record
    std::vector<Late> late;                    // records that were not complete when they came
    bool room(std::size_t bytes) const {
      return data != nullptr && used + bytes <= size && (max_records == 0 || records < max_records);
    }
  };
  using Lock = std::unique_lock<std::mutex>;

  Buffer request(Lock& lock) const;
  bool any_ripe() const;  // full and complete
  std::vector<Buffer> take_full();
  void hand_back(const std::vector<Buffer>& buffers);
  void work();

  std::mutex delivery_;  // taken first: one hands back at a time
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::map<std::uint32_t, Buffer> current_;  // by thread, or under 0
  std::vector<Buffer> full_;
  std::size_t dropped_ = 0;
  std::int64_t now_ = 0;  // as far as records told
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace softgpu::cupti

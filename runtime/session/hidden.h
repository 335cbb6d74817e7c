// What the program may do with memory that no call's operands show.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "core/device.h"
#include "core/ids.h"
#include "runtime/memory/held.h"
#include "runtime/memory/residency.h"

namespace pooch::runtime {

// Which live allocations stay on the device, since somebody may use them unseen. The session's mutex guards
// it.
class Stays {
 public:
  // A kernel may reach the allocation by an address that lies in memory, as long as it lives.
  void reach(Address base) { reasons_[base].by_address = true; }
  // A graph or a registration names it; several may.
  void name(Address base) { ++reasons_[base].names; }
  // One of these is gone. True: nothing keeps the allocation now.
  bool unname(Address base);
  void ended(Address base) { reasons_.erase(base); }

  // The range of an allocation of `bytes` is on the device, and stays there.
  void keep(Range& range, std::uint64_t bytes);
  static void release(Range& range);

  // Of the whole run.
  std::uint64_t allocations() const { return allocations_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Reasons {
    bool by_address = false;
    int names = 0;
  };
  std::map<Address, Reasons> reasons_;
  std::uint64_t allocations_ = 0, bytes_ = 0;
};

// Small memory that kernels of unknown effects have written: it may hold addresses, so it is searched before
// memory is so short that something might leave. The session's mutex guards it.
class SmallBuffers {
 public:
  static constexpr std::uint64_t largest = 2 * MiB;
  using Buffers = std::map<Address, std::uint64_t>;  // bytes

  void note(Address base, std::uint64_t bytes) { buffers_.insert_or_assign(base, bytes); }
  // It could not be searched yet; what was noted since holds.
  void note_again(Address base, std::uint64_t bytes) { buffers_.try_emplace(base, bytes); }
  void ended(Address base) { buffers_.erase(base); }
  // Each search makes the host wait, so their number is limited.
  bool due() const { return !buffers_.empty() && looks_ < most_looks; }
  void give_up() { looks_ = most_looks; }
  // A search of all of them begins.
  Buffers take();

  // Page-locked memory for `largest` bytes, for one search; a thread that searches beside another has its
  // own. Error: the device's.
  Result<std::byte*> borrow(Device& device);
  void give_back(Device& device, std::byte* memory);
  void close(Device& device);

 private:
  static constexpr std::uint64_t most_looks = 64;
  Buffers buffers_;
  std::uint64_t looks_ = 0;
  std::byte* memory_ = nullptr;  // not borrowed now; nullptr: none
};

// Ops whose effects are unknown, and how long it is since one came. While there are such ops, evicted memory
// lands (runtime/memory/landing.h). The session's mutex guards it.
class Unforeseen {
 public:
  // A thread is in the submit of such an op, or of another (`unforeseen` is false), as long as it lives.
  class UnderWay {
   public:
    UnderWay(Unforeseen& all, bool unforeseen, std::uint64_t iterations) : all_(unforeseen ? &all : nullptr) {
      if (all_ == nullptr) return;
      ++all_->under_way_;
      all_->came(iterations);
    }
    ~UnderWay() {
      if (all_ != nullptr) --all_->under_way_;
    }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

   private:
    Unforeseen* all_;
  };

  // One came in this iteration, or one that is launched like one.
  void came(std::uint64_t iterations) { iterations_at_last_ = iterations; }
  void count() { ++ops_; }
  std::uint64_t ops() const { return ops_; }
  // Kernels may reach memory by addresses that could not be searched for: any op may.
  void miss_tables() { tables_missed_ = true; }
  bool tables_missed() const { return tables_missed_; }
  // None is under way, and none came in the latest of `iterations` whole ones.
  bool long_ago(std::uint64_t iterations);
  // A thread is bringing back what left before landing.
  Turn& landing_begins() { return landing_begins_; }

 private:
  std::uint64_t ops_ = 0;
  std::atomic<int> under_way_{0};         // threads; each leaves without the mutex
  std::uint64_t iterations_at_last_ = 0;  // how many there were when the latest came
  bool tables_missed_ = false;
  Turn landing_begins_;
};

struct Hidden {
  Stays stays;
  SmallBuffers small_buffers;
  Unforeseen unforeseen;
};

}  // namespace pooch::runtime

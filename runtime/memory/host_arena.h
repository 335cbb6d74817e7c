// Page-locked host memory for evicted chunks, within a budget.
//
// Locking pages costs 0.05 to 0.45 s per GB, so the arena grows in pieces and never shrinks. A slot may
// consist of several extents, so every free byte is usable, in whatever order slots are freed.
//
// A chunk that is to land (landing.h) needs a handle of its own size instead. Those are recycled by size; if
// nothing else is left, free ones become ordinary memory, for good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/result.h"
#include "runtime/memory/stream_order.h"

namespace pooch::runtime {

struct HostExtent {
  std::byte* memory;
  std::uint64_t bytes;
};
using HostSlot = std::vector<HostExtent>;

class HostArena {
 public:
  HostArena(Device& device, StreamOrder& order, std::uint64_t budget)
      : device_(device), order_(order), budget_(budget) {}
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  // Room for `bytes`, rounded up to 2 MiB. Error out_of_memory: the budget is exhausted, or the slots that
  // would serve are still being copied from (`busy` says so: waiting helps).
  Result<HostSlot> allocate(std::uint64_t bytes);
  // The same as one handle of exactly `bytes`, which create() of the device would take. Error out_of_memory:
  // none is free, and the budget has no room for another.
  Result<HostSlot> allocate_handle(std::uint64_t bytes);
  // The handle that a slot is, if it is one.
  std::optional<PhysicalHandle> handle_of(const HostSlot& slot) const;
  // Handles that it consists of are ordinary memory from now on: it may be given back in parts.
  void break_up(const HostSlot& slot);
  // The slot is free once the copies up to `last_use` are finished.
  void free(HostSlot slot, Mark last_use);
  // The point to wait for before memory that was freed can be handed out again; nothing where none is
  // pending.
  std::optional<Mark> busy() const;

  bool full() const { return locked_ == budget_; }
  std::uint64_t locked_bytes() const { return locked_; }  // what is page-locked: it never shrinks

 private:
  struct Handle {
    PhysicalHandle handle;
    std::uint64_t bytes;
    bool whole = true;  // else it has become ordinary memory
  };
  void insert(HostExtent extent);
  Status collect();
  Status grow(std::uint64_t bytes);
  void break_up_handles(std::uint64_t bytes);

  Device& device_;
  StreamOrder& order_;
  std::uint64_t budget_;
  std::uint64_t locked_ = 0, free_bytes_ = 0;
  std::vector<HostExtent> pieces_;
  std::map<std::byte*, std::uint64_t> free_;                       // joined with neighbours
  std::map<std::byte*, Handle> handles_;                           // by their memory
  std::map<std::uint64_t, std::vector<std::byte*>> free_handles_;  // by size
  bool more_handles_ = true;                                       // the device has not refused one yet
  std::vector<std::pair<HostSlot, Mark>> cooling_down_;            // freed, but a copy may still be under way
};

}  // namespace pooch::runtime

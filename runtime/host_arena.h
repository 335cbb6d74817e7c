// Page-locked host memory for evicted chunks, within a budget.
//
// Locking pages costs about 0.1 s per GB, so the arena grows in pieces and never shrinks. A slot may consist
// of several extents: then every free byte is usable, whatever was freed in whatever order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/result.h"
#include "runtime/stream_order.h"

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
  // The slot is free once the copies up to `last_use` are finished.
  void free(HostSlot slot, Mark last_use);
  // The point to wait for before memory that was freed can be handed out again; nothing where none is
  // pending.
  std::optional<Mark> busy() const;

  bool full() const { return locked_ == budget_; }
  std::uint64_t locked_bytes() const { return locked_; }  // what is page-locked: it never shrinks

 private:
  void insert(HostExtent extent);
  Status collect();
  Status grow(std::uint64_t bytes);

  Device& device_;
  StreamOrder& order_;
  std::uint64_t budget_;
  std::uint64_t locked_ = 0, free_bytes_ = 0;
  std::vector<HostExtent> pieces_;
  std::map<std::byte*, std::uint64_t> free_;             // joined with neighbours
  std::vector<std::pair<HostSlot, Mark>> cooling_down_;  // freed, but a copy may still be under way
};

}  // namespace pooch::runtime

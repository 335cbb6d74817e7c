// Which devices may access what one of them has mapped.
#pragma once

#include "interpose/hooks/driver_api.h"

#include <map>
#include <mutex>
#include <vector>

#include "core/function_ref.h"
#include "core/ids.h"
#include "core/result.h"

namespace pooch::interpose {

class Peers {
 public:
  // `others`: there may be some. Without them nobody need know what is mapped.
  Peers(int own, bool others) : others_(others), rights_{right(own)} {}

  // What cuMemSetAccess takes.
  std::vector<CUmemAccessDesc> rights() {
    const std::lock_guard lock(mutex_);
    return rights_;
  }
  void mapped(Address at, std::uint64_t bytes) {
    if (!others_) return;
    const std::lock_guard lock(mutex_);
    mapped_.insert_or_assign(at, bytes);
  }
  // Ahead of the call: nobody is let into what is going.
  void unmapped(Address at, std::uint64_t bytes) {
    if (!others_) return;
    const std::lock_guard lock(mutex_);
    mapped_.erase(mapped_.lower_bound(at), mapped_.lower_bound(at + bytes));
  }
  // `set`: gives a right to a range that is mapped.
  Status add(int peer, FunctionRef<Status(Address, std::uint64_t, const CUmemAccessDesc&)> set) {
    const std::lock_guard lock(mutex_);
    for (const CUmemAccessDesc& known : rights_)
      if (known.location.id == peer) return Done{};
    for (const auto& [at, bytes] : mapped_)
      if (const Status done = set(at, bytes, right(peer)); !done) return done;
    rights_.push_back(right(peer));
    return Done{};
  }

 private:
  static CUmemAccessDesc right(int device) {
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return access;
  }

  const bool others_;
  std::mutex mutex_;  // a leaf
  std::vector<CUmemAccessDesc> rights_;
  std::map<Address, std::uint64_t> mapped_;
};

}  // namespace pooch::interpose

// Memory pools as the program sees them. A managed allocation is no memory of the driver's pool that it was
// asked from, so a pool's figures are kept here: of everything that was allocated from it, managed or not.
#pragma once

#include "interpose/hooks/driver_api.h"

#include <atomic>
#include <cstdint>

#include "interpose/hooks/scope.h"

namespace pooch::interpose {

enum class PoolMemory : std::uint8_t {
  manageable,  // of the current device, for this process alone
  device,      // of the current device, but other processes may get at it: the driver's to serve
  elsewhere,   // the host's or another device's: not counted against the cap either
};

struct PoolAccount;
struct StreamBlocks;  // driver/small_blocks.h

// What an allocation comes from: a pool, and where it is a small block, blocks cut from memory of it.
struct Origin {
  PoolAccount* account = nullptr;
  StreamBlocks* blocks = nullptr;
};

// A sum with its high-water mark.
class Figure {
 public:
  void add(std::uint64_t bytes) {
    const std::uint64_t now = now_.fetch_add(bytes) + bytes;
    std::uint64_t high = high_.load();
    while (high < now && !high_.compare_exchange_weak(high, now)) {
    }
  }
  void subtract(std::uint64_t bytes) { now_.fetch_sub(bytes); }
  void reset_mark() { high_.store(now_.load()); }
  std::uint64_t now() const { return now_.load(); }
  std::uint64_t high() const { return high_.load(); }

 private:
  std::atomic<std::uint64_t> now_{0}, high_{0};
};

// A pool's figures: of what a session knows to be allocated from it. Lives as long as the pool or anything
// that was allocated from it.
struct PoolAccount : Origin {
  PoolAccount(CUmemoryPool which, PoolMemory where, CUdevice of, std::uint64_t may_use, bool is_standard)
      : Origin{this, nullptr},
        handle(which),
        memory(where),
        device(of),
        most(may_use),
        standard(is_standard) {}

  const CUmemoryPool handle;
  const PoolMemory memory;
  const CUdevice device;                     // for what is not elsewhere
  const std::uint64_t most;                  // that may be used; 0: any
  const bool standard;                       // the device's own
  std::atomic<std::uint64_t> threshold = 0;  // up to which the program lets the pool keep what is free
  std::atomic<bool> any_own = false;         // else the driver's own figures are right
  Figure used = {}, managed = {};            // managed: whole pages
  std::atomic<std::uint64_t> holders = 1;    // the list of pools, and what is allocated
};

// Of the pool that cuMemAllocAsync takes from in the current context; nullptr where the driver does not say.
PoolAccount* current_pool(const Scope& scope);
PoolAccount* pool_account(const Scope& scope, CUmemoryPool pool);
PoolMemory memory_of(const Scope& scope, const PoolAccount& account);
CUmemoryPool handle_of(const PoolAccount* account);  // nullptr: of none
bool is_standard(const PoolAccount& account);        // the device's own pool, which is not destroyed
Origin* origin_of(PoolAccount* account);

// Of a pool that is known; else nullptr.
PoolAccount* find_pool(CUmemoryPool pool);
void note_pool_created(CUmemoryPool pool, const CUmemPoolProps& props);
void note_pool_destroyed(CUmemoryPool pool);
// The device's current pool is another one from now on; it is asked for when somebody wants to know.
void note_current_pool_changed(CUdevice device);

// Whether so many bytes more may be allocated from it (CUmemPoolProps::maxSize).
bool admits(const PoolAccount& account, std::uint64_t bytes);
// Who serves an allocation.
enum class ServedBy : std::uint8_t { driver, session, block };
// An allocation from the pool begins and ends; nullptr: it is from none.
void charge(PoolAccount* account, std::uint64_t bytes, ServedBy by);
void discharge(PoolAccount* account, std::uint64_t bytes, ServedBy by);

}  // namespace pooch::interpose

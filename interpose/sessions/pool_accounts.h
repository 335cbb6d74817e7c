// Memory pools as the program sees them. A managed allocation is no memory of the driver's pool that it was
// asked from, so a pool's figures are kept here: of everything that was allocated from it, managed or not.
#pragma once

#include "interpose/hooks/driver_api.h"

#include <cstdint>

#include "interpose/hooks/scope.h"

namespace pooch::interpose {

enum class PoolMemory : std::uint8_t {
  manageable,  // of the current device, for this process alone
  device,      // of the current device, but other processes may get at it: the driver's to serve
  elsewhere,   // the host's or another device's: not counted against the cap either
};

struct PoolAccount;
struct StreamBlocks;

// What an allocation comes from: a pool, and where it is a small block, blocks cut from memory of it.
struct Origin {
  PoolAccount* account = nullptr;
  StreamBlocks* blocks = nullptr;
};

// A pool's figures: of what a session knows to be allocated from it. Lives as long as the pool or anything
// that was allocated from it.
struct PoolAccount;

// Of the pool that cuMemAllocAsync takes from in the current context; nullptr where the driver does not say.
PoolAccount* current_pool(const Scope& scope);
PoolAccount* pool_account(const Scope& scope, CUmemoryPool pool);
PoolMemory memory_of(const Scope& scope, const PoolAccount& account);
CUmemoryPool handle_of(const PoolAccount* account);  // nullptr: of none
bool is_standard(const PoolAccount& account);        // the device's own pool, which is not destroyed
Origin* origin_of(PoolAccount* account);

// Has the driver give back what is free in the current pool.
void trim_current_pool(const Scope& scope);

// Whether so many bytes more may be allocated from it (CUmemPoolProps::maxSize).
bool admits(const PoolAccount& account, std::uint64_t bytes);
// Who serves an allocation.
enum class ServedBy : std::uint8_t { driver, session, block };
// An allocation from the pool begins and ends; nullptr: it is from none.
void charge(PoolAccount* account, std::uint64_t bytes, ServedBy by);
void discharge(PoolAccount* account, std::uint64_t bytes, ServedBy by);

}  // namespace pooch::interpose

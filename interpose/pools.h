// Memory pools as the program sees them. A managed allocation is no memory of the driver's pool that it was
// asked from, so a pool's figures are kept here: of everything that was allocated from it, managed or not.
#pragma once

#include "interpose/driver_api.h"

#include <cstdint>
#include <memory>

#include "interpose/scope.h"

namespace pooch::interpose {

enum class PoolMemory : std::uint8_t {
  manageable,  // of the current device, for this process alone
  device,      // of the current device, but other processes may get at it: the driver's to serve
  elsewhere,   // the host's or another device's: not counted against the cap either
};

struct PoolAccount;

// The pool that cuMemAllocAsync takes from in the current context; nullptr where the driver does not say.
CUmemoryPool current_pool(const Scope& scope);
PoolMemory memory_of(const Scope& scope, CUmemoryPool pool);

// Has the driver give back what is free in the current pool.
void trim_current_pool(const Scope& scope);

// May so many bytes more be allocated from it? (CUmemPoolProps::maxSize.)
bool pool_admits(CUmemoryPool pool, std::uint64_t bytes);
void pool_allocated(CUmemoryPool pool, CUdeviceptr address, std::uint64_t bytes, bool managed);

// Takes an allocation off its pool's account before the driver may hand out its address again. The destructor
// puts it back, unless it was `done`.
class PoolFree {
 public:
  explicit PoolFree(CUdeviceptr address);
  ~PoolFree();
  PoolFree(const PoolFree&) = delete;
  PoolFree& operator=(const PoolFree&) = delete;
  void done() { account_.reset(); }

 private:
  CUdeviceptr address_;
  std::uint64_t bytes_ = 0;
  bool managed_ = false;
  std::shared_ptr<PoolAccount> account_;
};

// The pool of a live allocation; nullptr where it is from none.
CUmemoryPool pool_of(CUdeviceptr allocation);

}  // namespace pooch::interpose

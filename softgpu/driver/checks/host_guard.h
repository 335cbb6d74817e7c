// Catches the program's own accesses to page-locked buffers of asynchronous copies that it has not waited
// for.
//
// A copy's data is in place as soon as it was submitted, so a program that forgets to wait would see nothing
// wrong. Until the host is ordered behind a copy, the pages that belong wholly to the buffer are therefore
// protected: those that the copy writes against any access, those that it reads against writing. A fault
// there is a race; it is reported with both sides, and the access goes on.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/driver/space/host_memory.h"
#include "softgpu/driver/terms/clock.h"
#include "softgpu/driver/terms/stream.h"

namespace softgpu {

class HostGuard {
 public:
  // What a fault of the program's own code calls: takes the guard away that covers `address`, and reports the
  // race. False where no guard covers it.
  using OnAccess = bool (*)(HostGuard& guard, std::uint64_t address, bool write);
  HostGuard(const HostMemory& host, OnAccess on_access) : host_(host), on_access_(on_access) {}

  // The copies have run: `by` stays in flight as far as the host knows.
  void protect(const std::vector<CopyPart>& copies, const Access& by);
  // The driver itself is about to touch the buffers.
  void lift(const std::vector<CopyPart>& copies);
  // The host has seen what `host` covers.
  void release(const VectorClock& host);
  // Page-locked memory is about to go.
  void forget(std::uint64_t base, std::uint64_t bytes);

  struct Guarded {
    std::uint64_t begin, end;  // whole pages
    bool written;              // by the copy; otherwise it reads them
    Access by;
  };
  // Takes the guard away that covers `address`, if there is one: the access may go on.
  bool take(std::uint64_t address, Guarded& out);
  bool accessed(std::uint64_t address, bool write) { return on_access_(*this, address, write); }

 private:
  void add(std::uint64_t address, std::uint64_t bytes, bool written, const Access& by);
  // Gives [begin, end) the protection that the guards ask for.
  void apply(std::uint64_t begin, std::uint64_t end) const;

  const HostMemory& host_;
  const OnAccess on_access_;
  std::vector<Guarded> guards_;
};

// While one lives on a thread, that thread's faults are the driver's own: guards give way without a report.
class DriverAtWork {
 public:
  DriverAtWork();
  ~DriverAtWork();
  DriverAtWork(const DriverAtWork&) = delete;
  DriverAtWork& operator=(const DriverAtWork&) = delete;
};

}  // namespace softgpu

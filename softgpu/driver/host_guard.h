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

#include "softgpu/driver/clock.h"
#include "softgpu/driver/host_memory.h"
#include "softgpu/driver/stream.h"

namespace softgpu {

class HostGuard {
 public:
  explicit HostGuard(const HostMemory& host) : host_(host) {}

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

 private:
  void add(std::uint64_t address, std::uint64_t bytes, bool written, const Access& by);
  // Gives [begin, end) the protection that the guards ask for.
  void apply(std::uint64_t begin, std::uint64_t end) const;

  const HostMemory& host_;
  std::vector<Guarded> guards_;
};

// Turns faults on guarded pages into reports; other faults go to whoever was there before.
void catch_faults(HostGuard* guard);

// While one lives on a thread, that thread's faults are the driver's own: guards give way without a report.
class DriverAtWork {
 public:
  DriverAtWork();
  ~DriverAtWork();
  DriverAtWork(const DriverAtWork&) = delete;
  DriverAtWork& operator=(const DriverAtWork&) = delete;
};

}  // namespace softgpu

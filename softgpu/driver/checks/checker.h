// Judges accesses: whether there is memory, whose it is, whether it was written, and whether everyone who
// touched it before is ordered before us. Keeps the shadows.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/driver/checks/provenance.h"
#include "softgpu/driver/checks/report.h"
#include "softgpu/driver/checks/shadow.h"
#include "softgpu/driver/space/address.h"
#include "softgpu/driver/space/host_memory.h"
#include "softgpu/driver/terms/stream.h"

namespace softgpu {

class Checker {
 public:
  // `provenance`: learns which memory is fresh; null where the device computes.
  Checker(AddressMap& addresses, HostMemory& host, PhysicalMemory& physical, PhysicalMemory& handles,
          Violations& violations, Provenance* provenance)
      : addresses_(addresses),
        host_(host),
        physical_(physical),
        handles_(handles),
        violations_(violations),
        provenance_(provenance) {}

  // Each notes the accesses, adds a violation where there is one, and returns whether all was well.
  // `landed`: what of it lies in host memory behind device addresses, and so crosses the link.
  struct Landed {
    std::uint64_t read = 0, written = 0;  // bytes
  };
  bool kernel(const std::vector<Touch>& touches, const Access& by, const VectorClock& clock, Landed& landed);
  bool copy(const CopyPart& part, const Access& by, const VectorClock& clock);
  bool write(std::uint64_t address, std::uint64_t bytes, const Access& by, const VectorClock& clock);
  // A wait-value or write-value: memory must be there; such accesses synchronise, so they race with nothing.
  bool reachable(std::uint64_t address, std::uint64_t bytes, const Access& by);
  // Physical memory becomes fresh (never written), or is given up; `verb` for the message.
  bool renew(const Object& object, const Access& by, const VectorClock& clock, const char* verb);
  bool renew(const std::vector<Extent>& extents, const Access& by, const VectorClock& clock,
             const char* verb);
  // The mapping at `object` changes: everybody who used it must be ordered before.
  bool mapping_changes(const Object& object, const Access& by, const VectorClock& clock, const char* verb);
  // Page-locked memory comes or goes.
  bool host_changes(std::uint64_t base, std::uint64_t bytes, const Access& by, const VectorClock& clock);
  void host_forget(std::uint64_t base, std::uint64_t bytes) {
    host_shadow_.forget(base, base + bytes);
    if (provenance_ != nullptr) provenance_->forget_host(base, bytes);
  }

  // Whether the whole range is device memory that can be accessed now. Used before work is accepted; adds
  // nothing.
  bool valid_device(std::uint64_t address, std::uint64_t bytes);
  // Adds the violation that an access to this bad range is, without making it fatal.
  void refuse(std::uint64_t address, std::uint64_t bytes, bool write, const Access& by);

  // Kernels and sets that reached host memory behind device addresses.
  std::uint64_t landed_accesses() const { return landed_accesses_; }

  std::size_t intervals() const { return device_shadow_.intervals() + host_shadow_.intervals(); }

 private:
  // Part of a range in one shadow.
  struct Span {
    Shadow* shadow;
    std::uint64_t begin, end;  // in the shadow's space
    std::uint64_t address;     // of the first byte, as the program sees it
    Object* object;            // null for host memory
  };
  struct Fault {
    const char* kind = nullptr;
    Access by;  // who took the memory away
    const char* verb = "";
    std::uint64_t begin = 0, end = 0;
  };
  bool resolve(std::uint64_t address, std::uint64_t bytes, bool write, std::vector<Span>& out, Fault& fault);
  Fault fault_at(std::uint64_t address, std::uint64_t end, const Object* before);
  bool within_reach(const std::vector<Touch>& touches, const Access& by);
  bool report(const Fault& fault, const char* verb, const Access& by, bool fatal);
  bool race(const Span& span, const Conflict& conflict, const char* verb, const Access& by);
  bool note(const Span& span, bool write, const Access& by, const VectorClock& clock);
  bool read_touch(const Touch& touch, const Access& by, const VectorClock& clock);
  std::uint64_t landed_bytes() const;  // of `spans_`
  bool write_touch(std::uint64_t address, std::uint64_t bytes, const Access& by, const VectorClock& clock);
  static void use(Object& object, const Access& by);

  AddressMap& addresses_;
  HostMemory& host_;
  PhysicalMemory &physical_, &handles_;
  Violations& violations_;
  Provenance* provenance_;
  Shadow device_shadow_{false};
  // A program may write page-locked memory itself, unseen.
  Shadow host_shadow_{true};
  bool content_known_ = true;  // every write so far was of known bytes
  std::uint64_t landed_accesses_ = 0;
  std::vector<Span> spans_;  // scratch
};

}  // namespace softgpu

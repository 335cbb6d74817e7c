// What memory holds where nothing is computed: not bytes, but where they come from (origin.h). Kernels and
// sets write tokens, copies carry them. So a kernel that runs again on other operands, a write that is lost
// and content that is stale leave other tokens, and what the host reads is made from tokens: it differs too.
//
// What the host's memory holds:
// - page-locked: tokens, and bytes made from them: of a copy of 1 MiB or more into an allocation of 64 MiB or
//   more the first 64, else all. Where a later copy finds other bytes, the program has written there itself.
// - pageable: bytes made from tokens.
// - the program's own content: its token is the hash of its bytes (of more than 64 KiB a sample).
//
// Bytes made from a token read as floats of 0.5 to 1, four bytes each; those of a set are what was set; never
// written ones are 0xFF, which is NaN. A copy of 8 bytes reads as 0 or 1, and one of a single byte as 0:
// programs take them for sizes, indices and flags, and go on. A scalar that came from the host goes back as
// it was.
//
// Where a kernel's accesses are not known, nobody can say what still holds what. They are counted, and from
// the first on all that the host reads is 0xFF: a loss is NaN, and digests are equal whatever they are of.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "softgpu/driver/space/address.h"
#include "softgpu/driver/space/host_memory.h"
#include "softgpu/driver/terms/origin.h"
#include "softgpu/driver/terms/stream.h"

namespace softgpu {

class Provenance {
 public:
  Provenance(AddressMap& addresses, const HostMemory& host) : addresses_(addresses), host_(host) {}

  // The work runs now; its accesses are known to be good. Device addresses are those of now.
  void apply(const Work& work);
  // Physical memory becomes fresh.
  void renew(const Object& object);
  void renew(const std::vector<Extent>& extents);
  // Page-locked memory comes or goes.
  void forget_host(std::uint64_t base, std::uint64_t bytes) { pinned_.forget(base, base + bytes); }

  // Of what lies there, of the program's own.
  Origin of_bytes(const std::vector<CopyPart>& parts);

  std::uint64_t operations() const { return operations_; }
  // Kernels whose accesses are not known, with how often they ran.
  const std::map<std::string, std::uint64_t>& unknown() const { return unknown_; }

 private:
  // What page-locked memory holds.
  struct Kept {
    Origin origin;
    std::uint64_t head = 0;  // where the 64 bytes are that tell; 0: all bytes are there
    bool known = false;      // else it is the program's own
    Kept at(std::uint64_t offset) const { return {origin.at(offset), head, known}; }
    friend bool operator==(const Kept&, const Kept&) = default;
  };
  struct Run {
    std::uint64_t bytes;
    Origin origin;
  };

  void kernel(const Work& work);
  void run_stage(const Work& work, const Stage& stage);
  void compare(const Work& work, const Footprint::Comparison& comparison);
  std::uint64_t operation_of(const Work& work, const Stage& stage);
  void copy(const Work& work);
  template <class Visit>
  void pieces(const Object* object, std::uint64_t address, std::uint64_t bytes, Visit visit);
  template <class Visit>
  void origins(std::uint64_t address, std::uint64_t bytes, Visit visit);
  std::uint64_t content(const Touch& touch);
  void write(std::uint64_t address, std::uint64_t bytes, const Origin& origin);
  std::vector<Run> source(const CopyPart& part);
  std::vector<Run> host_source(const CopyPart& part);
  std::vector<Run> page_locked_source(const CopyPart& part);
  bool move_bytes(const CopyPart& part);
  bool still_there(std::uint64_t begin, std::uint64_t end, const Kept& kept) const;
  void deliver(const CopyPart& part, const std::vector<Run>& runs);
  // Whether the host gets all bytes of such a copy.
  bool whole_on_host(const CopyPart& part) const;
  // `whole`: with all bytes.
  void deliver_to_host(const CopyPart& part, const std::vector<Run>& runs, bool whole);
  // Bytes that are made from a token, from `origin` on.
  void make(const Origin& origin, std::byte* to, std::uint64_t bytes) const;
  void make_scalar(const Origin& origin, std::byte* to, std::uint64_t bytes) const;

  AddressMap& addresses_;
  const HostMemory& host_;
  RunMap<Origin> device_;                             // by physical address, host handles included
  RunMap<Kept> pinned_;                               // by host address
  std::unordered_map<Token, std::uint32_t> sets_;     // the 4 bytes that are repeated
  std::unordered_map<Token, std::uint64_t> scalars_;  // of 8 bytes at most, that the host gave
  std::map<std::string, std::uint64_t> unknown_;
  std::uint64_t operations_ = 0;
};

}  // namespace softgpu

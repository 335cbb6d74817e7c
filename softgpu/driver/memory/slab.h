// Small allocations share slabs of one granule, at 512-byte alignment, so that neither capacity nor addresses
// are spent on 2 MiB for each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "softgpu/driver/space/physical.h"

namespace softgpu {

inline constexpr std::uint64_t slab_alignment = 512;
inline constexpr std::uint64_t slab_limit = std::uint64_t{1} << 20;  // larger ones get granules of their own

struct Slab {
  std::uint64_t base;  // device address
  Extent physical;
  struct Free {
    std::uint64_t bytes;
    ReleasePtr release;
  };
  std::map<std::uint64_t, Free> free;  // offset -> bytes
};

struct SlabBlock {
  std::uint64_t address;
  Extent physical;
  ReleasePtr release;  // to be ordered after; may be null
};

class SlabSpace {
 public:
  // First fit, lowest address first; nothing where a new slab is needed.
  std::optional<SlabBlock> take(std::uint64_t bytes);
  void add(std::uint64_t base, const Extent& physical);
  // Gives a block back. Returns the slab where that emptied it: its memory and addresses are the caller's
  // again, `release` being its latest release.
  struct Emptied {
    std::uint64_t base;
    Extent physical;
    ReleasePtr release;
  };
  std::optional<Emptied> give(std::uint64_t address, std::uint64_t bytes, const ReleasePtr& release);

 private:
  std::map<std::uint64_t, Slab> slabs_;
};

}  // namespace softgpu

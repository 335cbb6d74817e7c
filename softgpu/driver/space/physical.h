// Physical memory, the devices' and what of the host's handles can be made of: granules of 2 MiB out of a
// sparse memfd (compute mode), or out of nothing (timing mode); that of several devices lies one behind the
// other. A range freed in stream order carries its release: whoever takes it next must follow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "softgpu/driver/terms/clock.h"

namespace softgpu {

inline constexpr std::uint64_t granule = std::uint64_t{2} << 20;

struct Extent {
  std::uint64_t offset, bytes;  // physical
};

// Where in the order of things memory was given up.
struct Release {
  Access by;
  VectorClock clock;
  Nanoseconds time = 0;
};
using ReleasePtr = std::shared_ptr<const Release>;

struct Claim {
  std::vector<Extent> extents;
  std::vector<ReleasePtr> releases;  // to be ordered after
};

class PhysicalMemory {
 public:
  // `bytes` of each device. `backed`: with a memfd, to be mapped. `first`: its first offset, so that two
  // memories have none in common. Throws std::system_error where it cannot be made.
  PhysicalMemory(std::uint64_t bytes, int devices, bool backed, std::uint64_t first = 0);
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  // `bytes` of a device's, a multiple of the granule, preferably contiguous and preferably ordered before
  // `clock` already. Nothing where it is exhausted.
  std::optional<Claim> claim(std::uint64_t bytes, int device, const VectorClock& clock);
  // Gives extents back. `release` null: ordered before everything to come.
  void release(const std::vector<Extent>& extents, const ReleasePtr& release);
  // So much of a device's, a multiple of the granule, is the driver's own and nobody else can have it; false
  // where others have it.
  bool set_aside(std::uint64_t bytes, int device);
  // Somebody wrote there: its pages exist, and mapping it again may take them all at once.
  void touch(std::uint64_t begin, std::uint64_t end);
  bool touched(const Extent& extent) const;
  // Releases that the host has seen need no memory any more.
  void settle(const VectorClock& host);

  std::uint64_t capacity() const { return capacity_; }  // of each device
  std::uint64_t used(int device) const { return used_[static_cast<std::size_t>(device)]; }
  std::uint64_t aside(int device) const { return aside_[static_cast<std::size_t>(device)]; }
  std::uint64_t aside() const { return *std::max_element(aside_.begin(), aside_.end()); }  // of any
  std::uint64_t left(int device) const { return capacity_ - used(device) - aside(device); }
  std::uint64_t peak(int device) const { return peak_[static_cast<std::size_t>(device)]; }
  std::uint64_t peak() const { return *std::max_element(peak_.begin(), peak_.end()); }  // of any
  int device_of(std::uint64_t offset) const { return static_cast<int>(in_file(offset) / capacity_); }
  int descriptor() const { return descriptor_; }
  std::uint64_t in_file(std::uint64_t offset) const { return offset - first_; }

 private:
  struct Free {
    std::uint64_t bytes;
    ReleasePtr release;
  };
  using FreeMap = std::map<std::uint64_t, Free>;

  void take(FreeMap::iterator from, std::uint64_t bytes, Claim& claim);
  FreeMap::iterator join_neighbours(FreeMap::iterator at);
  void retain(const Extent& extent);

  std::uint64_t capacity_, first_;
  std::vector<std::uint64_t> used_, aside_, peak_;  // by device
  int descriptor_ = -1;
  FreeMap free_;
  std::uint64_t retained_ = 0;  // bytes freed and not punched out yet, at most
  std::vector<bool> touched_;   // per granule, where backed
};

}  // namespace softgpu

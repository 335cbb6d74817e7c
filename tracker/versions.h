// Versions of one allocation: a region's content from one write to the next.
#pragma once

#include <cstdint>
#include <vector>

namespace pooch::tracker {

// Index of an op among all that the program submitted; the producer's number names a version.
enum class OpNumber : std::uint64_t {};

struct Version {
  std::uint64_t offset, bytes;  // the region, within its allocation
  OpNumber producer;
};

// Disjoint regions in order of offset. Bytes outside every version have no meaning: never written, or
// scratch.
class Versions {
 public:
  // [offset, offset + bytes) has new content. What an earlier version had outside of it stays that version.
  void write(std::uint64_t offset, std::uint64_t bytes, OpNumber producer);
  // The content of the region is dead.
  void kill(std::uint64_t offset, std::uint64_t bytes);
  void clear() { versions_.clear(); }
  // Does any byte of the region have a meaning?
  bool live(std::uint64_t offset, std::uint64_t bytes) const;
  const std::vector<Version>& all() const { return versions_; }

 private:
  std::vector<Version> versions_;
};

}  // namespace pooch::tracker

// Versions of one allocation: a region's content from one write to the next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tracker/producer.h"

namespace pooch::tracker {

struct Version {
  std::uint64_t offset, bytes;  // the region, within its allocation
  Producer producer;
};

// Disjoint regions in order of offset. Bytes outside every version have no meaning: never written, or
// scratch.
class Versions {
 public:
  // [offset, offset + bytes) has new content. Parts of earlier versions outside of it remain.
  void write(std::uint64_t offset, std::uint64_t bytes, Producer producer);
  // The content of the region is dead.
  void kill(std::uint64_t offset, std::uint64_t bytes);
  void clear() { versions_.clear(); }
  // Whether any byte of the region has a meaning.
  bool live(std::uint64_t offset, std::uint64_t bytes) const;
  // visit(offset, bytes, producer) for what lies in the region, in order of offset.
  template <class Visit>
  void each(std::uint64_t offset, std::uint64_t bytes, Visit&& visit) const {
    const auto beyond = [&](const Version& v) { return v.offset + v.bytes <= offset; };
    for (auto v = std::partition_point(versions_.begin(), versions_.end(), beyond);
         v != versions_.end() && v->offset < offset + bytes; ++v) {
      const std::uint64_t from = std::max(v->offset, offset);
      visit(from, std::min(v->offset + v->bytes, offset + bytes) - from, v->producer);
    }
  }
  const std::vector<Version>& all() const { return versions_; }

 private:
  std::vector<Version> versions_;
};

}  // namespace pooch::tracker

// What happened last to each byte: an interval map over an address space (device memory by physical address,
// or page-locked host memory by its address). Each interval knows its last write, the reads since, and
// whether its content was ever written. Neighbours that know the same are merged, so that a steady program
// keeps a steady map.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "softgpu/driver/terms/clock.h"

namespace softgpu {

// An earlier access that the present one is not ordered after.
struct Conflict {
  Access other;
  bool other_writes = false;
  std::uint64_t begin = 0, end = 0;  // the bytes both touched
};

struct WrittenRun {
  std::uint64_t bytes;
  bool written;
};

class Shadow {
 public:
  // `written`: what bytes that nobody accessed yet count as.
  explicit Shadow(bool written) : untouched_written_(written) {}

  // Notes an access to [begin, end) by an agent whose clock is `clock` (own epoch included). Returns the
  // first conflict; the access is noted either way. A write leaves the bytes `written` or not (a fresh
  // allocation).
  std::optional<Conflict> note_read(std::uint64_t begin, std::uint64_t end, const Access& by,
                                    const VectorClock& clock);
  std::optional<Conflict> note_write(std::uint64_t begin, std::uint64_t end, const Access& by,
                                     const VectorClock& clock, bool written = true);

  // The first bytes of the range that were never written.
  struct Range {
    std::uint64_t begin, end;
  };
  std::optional<Range> first_unwritten(std::uint64_t begin, std::uint64_t end) const;
  // The range as runs of written and never-written bytes, in order.
  std::vector<WrittenRun> written_runs(std::uint64_t begin, std::uint64_t end) const;
  // Forgets all about the range.
  void forget(std::uint64_t begin, std::uint64_t end);

  std::size_t intervals() const { return intervals_.size(); }

 private:
  struct Interval {
    std::uint64_t end;
    bool written;
    Access write;
    Access read;               // the reads since the write: as a rule one suffices,
    std::vector<Access> more;  // others only where readers were not ordered among each other
    bool same_history(const Interval& other) const {
      return written == other.written && write == other.write && read == other.read && more == other.more;
    }
  };
  using Map = std::map<std::uint64_t, Interval>;

  Map::iterator split(std::uint64_t at);
  Map::const_iterator first_overlap(std::uint64_t begin) const;
  Map::iterator merge_into_previous(Map::iterator at);

  bool untouched_written_;
  Map intervals_;
};

}  // namespace softgpu

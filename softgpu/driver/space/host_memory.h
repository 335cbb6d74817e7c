// Page-locked host memory: what copies can reach asynchronously, within the model's host size.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace softgpu {

struct Pinned {
  std::uint64_t base, bytes;
  unsigned flags;
  bool registered;  // the program's own memory; else ours to unmap
  std::uint64_t id;
};

class HostMemory {
 public:
  explicit HostMemory(std::uint64_t limit) : limit_(limit) {}

  // Zeroed pages that cost nothing until touched. 0 where the limit or the system says no.
  std::uint64_t allocate(std::uint64_t bytes, unsigned flags);
  enum class Add { added, overlaps, exhausted };
  Add add_registered(std::uint64_t base, std::uint64_t bytes, unsigned flags);
  // `base` must be the start of one.
  void remove(std::uint64_t base);

  // Counts memory that handles are made of. False: so much is not left.
  bool take(std::uint64_t bytes);
  void give(std::uint64_t bytes) { used_ -= bytes; }

  const Pinned* find(std::uint64_t address) const;  // the one that contains it
  const Pinned* starts(std::uint64_t address) const;
  std::uint64_t used() const { return used_; }
  std::uint64_t peak() const { return peak_; }

 private:
  void insert(const Pinned& pinned);

  std::uint64_t limit_, used_ = 0, peak_ = 0, next_id_ = 1;
  std::map<std::uint64_t, Pinned> pinned_;
};

}  // namespace softgpu

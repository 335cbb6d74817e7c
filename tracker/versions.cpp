#include "tracker/versions.h"

#include <algorithm>

namespace pooch::tracker {
namespace {

std::uint64_t end_of(const Version& v) {
  return v.offset + v.bytes;
}

// The first version that reaches beyond `offset`.
auto first_beyond(auto& versions, std::uint64_t offset) {
  return std::partition_point(versions.begin(), versions.end(),
                              [&](const Version& v) { return end_of(v) <= offset; });
}

}  // namespace

void Versions::kill(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t end = offset + bytes;
  auto first = first_beyond(versions_, offset);
  if (first == versions_.end() || first->offset >= end) return;
  if (first->offset < offset) {
    const Version whole = *first;
    first->bytes = offset - first->offset;
    ++first;
    if (end_of(whole) > end) {  // a hole within one version
      versions_.insert(first, Version{end, end_of(whole) - end, whole.producer});
      return;
    }
  }
  auto last = first;
  while (last != versions_.end() && end_of(*last) <= end) ++last;
  if (last != versions_.end() && last->offset < end) {
    last->bytes = end_of(*last) - end;
    last->offset = end;
  }
  versions_.erase(first, last);
}

void Versions::write(std::uint64_t offset, std::uint64_t bytes, Producer producer) {
  if (bytes == 0) return;
  // The common case by far: one tensor per allocation, written whole again.
  if (versions_.size() == 1 && versions_[0].offset >= offset && end_of(versions_[0]) <= offset + bytes) {
    versions_[0] = {offset, bytes, producer};
    return;
  }
  kill(offset, bytes);
  versions_.insert(first_beyond(versions_, offset), Version{offset, bytes, producer});
}

bool Versions::live(std::uint64_t offset, std::uint64_t bytes) const {
  const auto first = first_beyond(versions_, offset);
  return first != versions_.end() && first->offset < offset + bytes;
}

}  // namespace pooch::tracker

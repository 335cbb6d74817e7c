#include "runtime/handle_pool.h"

#include <algorithm>

#include "core/log.h"
#include "runtime/memory_limits.h"

namespace pooch::runtime {

HandlePool::HandlePool(Device& device, std::uint64_t cap) : device_(device), cap_(cap) {
  // A class that takes a large share of the cap would leave too few pieces to move.
  for (const std::uint64_t bytes : {128 * MiB, 16 * MiB, page})
    if (bytes == page || bytes <= cap / 16) classes_.push_back(bytes);
}

HandlePool::~HandlePool() {
  for (auto& [bytes, handles] : free_lists_)
    for (const PhysicalHandle h : handles) (void)device_.destroy(h);
}

std::vector<std::uint64_t> HandlePool::compose(std::uint64_t bytes) const {
  std::vector<std::uint64_t> pieces;
  for (const std::uint64_t size : classes_)
    for (; bytes >= size; bytes -= size) pieces.push_back(size);
  return pieces;
}

Result<PhysicalHandle> HandlePool::acquire(std::uint64_t bytes) {
  auto& same_size = free_lists_[bytes];
  if (!same_size.empty()) {
    const PhysicalHandle handle = same_size.back();
    same_size.pop_back();
    free_ -= bytes;
    return handle;
  }
  if (bytes > available()) return Error{ErrorCode::out_of_memory, "the cap is reached"};
  if (const auto shrunk = shrink_to(limit() - bytes); !shrunk) return shrunk.error();
  auto made = device_.create(bytes);
  if (!made && made.error().code == ErrorCode::out_of_memory && free_ > 0) {
    // Less is free on the device than under the cap.
    if (const auto given = give_up(bytes); !given) return given.error();
    made = device_.create(bytes);
  }
  if (!made) {
    if (made.error().code == ErrorCode::out_of_memory && cap_ > created_ + outside_) {
      log::warn("the device has less memory than the cap of {} MiB: going on with {} MiB", cap_ / MiB,
                (created_ + outside_) / MiB);
      cap_ = created_ + outside_;
    }
    return made.error();
  }
  created_ += bytes;
  note_peak();
  return *made;
}

void HandlePool::give_back(PhysicalHandle handle, std::uint64_t bytes) {
  free_lists_[bytes].push_back(handle);
  free_ += bytes;
}

Status HandlePool::shrink_to(std::uint64_t bytes) {
  for (auto& [size, handles] : free_lists_) {
    while (created_ > bytes && !handles.empty()) {
      if (const auto gone = device_.destroy(handles.back()); !gone) return gone.error();
      handles.pop_back();
      created_ -= size;
      free_ -= size;
    }
  }
  return Done{};
}

Result<std::uint64_t> HandlePool::give_up(std::uint64_t bytes) {
  const std::uint64_t before = created_;
  if (const auto shrunk = shrink_to(created_ - std::min(created_, bytes)); !shrunk) return shrunk.error();
  return before - created_;
}

Status HandlePool::set_outside(std::uint64_t bytes) {
  if (const auto shrunk = shrink_to(cap_ > bytes ? cap_ - bytes : 0); !shrunk) return shrunk.error();
  outside_ = bytes;
  most_outside_ = std::max(most_outside_, bytes);
  note_peak();
  return Done{};
}

void HandlePool::note_peak() {
  peak_ = std::max(peak_, created_ + outside_);
}

}  // namespace pooch::runtime

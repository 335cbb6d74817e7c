#include "runtime/memory/handle_pool.h"

#include <algorithm>

#include "core/log.h"
#include "runtime/memory/memory_limits.h"

namespace pooch::runtime {
namespace {

// To map more in the place of one costs more, each time, than to make that one once.
constexpr std::size_t most_pieces = 4;

}  // namespace

HandlePool::HandlePool(Device& device, std::uint64_t cap) : device_(device), cap_(cap) {
  for (const std::uint64_t bytes : handle_classes)
    if (has_handles_of(bytes, cap)) classes_.push_back(bytes);
  largest_ = classes_.front();
}

HandlePool::~HandlePool() {
  for (auto& [bytes, handles] : free_lists_)
    for (const PhysicalHandle h : handles) (void)device_.destroy(h);
}

std::uint64_t HandlePool::unit(std::uint64_t cap) {
  constexpr std::uint64_t most_handles = 16384;
  std::uint64_t unit = largest_handle(cap);
  for (const std::uint64_t size : handle_classes)
    if (has_handles_of(size, cap) && cap / size <= most_handles) unit = size;
  return unit;
}

std::vector<std::uint64_t> HandlePool::compose(std::uint64_t bytes, std::uint64_t most) const {
  std::vector<std::uint64_t> pieces;
  for (const std::uint64_t size : classes_)
    for (; size <= most && bytes >= size; bytes -= size) pieces.push_back(size);
  return pieces;
}

Result<Pieces> HandlePool::acquire(std::uint64_t bytes) {
  if (bytes > available()) return Error{ErrorCode::out_of_memory, "the cap is reached"};
  const std::uint64_t most = handle_size(bytes);
  Pieces pieces;
  std::uint64_t wanted = bytes;
  take_free(most, wanted, pieces);
  const auto room = [this] { return limit() - std::min(limit(), created_); };
  if (room() < wanted && pieces_below(most, wanted) > most_pieces) {
    if (const auto shrunk = shrink_to(limit() - std::min(limit(), wanted)); !shrunk)
      return give_back(pieces), shrunk.error();
  } else if (room() < wanted) {
    for (const std::uint64_t size : classes_)
      if (size < most) take_free(size, wanted, pieces);
  }
  // The sizes divide each other: what is left is made of them, and larger handles make way.
  Status made = destroy_larger(most, wanted);
  for (const std::uint64_t size : made ? compose(wanted, most) : std::vector<std::uint64_t>{}) {
    const auto handle = create(size);
    if (!handle) {
      made = handle.error();
      break;
    }
    pieces.push_back({*handle, size});
  }
  if (made) return pieces;
  give_back(pieces);
  return made.error();
}

// How many free handles below `most` would make up `wanted`, larger ones first.
std::size_t HandlePool::pieces_below(std::uint64_t most, std::uint64_t wanted) const {
  std::size_t count = 0;
  for (auto list = free_lists_.rbegin(); list != free_lists_.rend(); ++list) {
    if (list->first >= most) continue;
    const std::uint64_t some = std::min<std::uint64_t>(list->second.size(), wanted / list->first);
    count += some;
    wanted -= some * list->first;
  }
  return count;
}

Result<Piece> HandlePool::acquire_whole(std::uint64_t bytes) {
  if (bytes > available()) return Error{ErrorCode::out_of_memory, "the cap is reached"};
  if (const auto shrunk = shrink_to(limit() - bytes); !shrunk) return shrunk.error();
  const auto handle = create(bytes);
  if (!handle) return handle.error();
  return Piece{*handle, bytes};
}

// Free handles of one size, as many as fit into `wanted`, which becomes what they leave.
void HandlePool::take_free(std::uint64_t size, std::uint64_t& wanted, Pieces& pieces) {
  const auto found = free_lists_.find(size);
  if (found == free_lists_.end()) return;
  for (; wanted >= size && !found->second.empty(); found->second.pop_back()) {
    pieces.push_back({found->second.back(), size});
    wanted -= size;
    free_ -= size;
  }
}

// Until there is room for so many bytes more.
Status HandlePool::destroy_larger(std::uint64_t than, std::uint64_t room) {
  for (auto size = free_lists_.upper_bound(than); size != free_lists_.end(); ++size) {
    for (; created_ + room > limit() && !size->second.empty(); size->second.pop_back()) {
      if (const auto gone = device_.destroy(size->second.back()); !gone) return gone.error();
      created_ -= size->first;
      free_ -= size->first;
    }
  }
  return Done{};
}

Result<PhysicalHandle> HandlePool::create(std::uint64_t bytes) {
  auto made = device_.create(bytes);
  if (!made && made.error().code == ErrorCode::out_of_memory && settle_for_less() &&
      created_ + bytes <= limit())
    made = device_.create(bytes);
  if (!made) return made.error();
  created_ += bytes;
  note_peak();
  return *made;
}

void HandlePool::give_back(const Pieces& pieces) {
  for (const Piece& piece : pieces) {
    free_lists_[piece.bytes].push_back(piece.handle);
    free_ += piece.bytes;
  }
  // Nobody asks for other sizes.
  for (auto list = free_lists_.begin(); list != free_lists_.end();) {
    const bool asked = std::find(classes_.begin(), classes_.end(), list->first) != classes_.end();
    for (; !asked && !list->second.empty(); list->second.pop_back()) {
      if (!device_.destroy(list->second.back())) break;
      created_ -= list->first, free_ -= list->first;
    }
    list = asked || !list->second.empty() ? std::next(list) : free_lists_.erase(list);
  }
  if (created_ > limit()) (void)shrink_to(limit());
}

bool HandlePool::settle_for_less() {
  const std::uint64_t before = limit();
  if (recount_) (void)set_outside(recount_());
  const auto free = device_.free_bytes();
  const std::uint64_t there = created_ + taken_outside_ + (free ? *free : 0), spare = device_slack(cap_);
  const std::uint64_t cap = there > spare ? there - spare : 0;
  if (cap < cap_) {
    if (!std::exchange(settled_, true))
      log::warn("the device has less memory than the cap of {} MiB: going on with {} MiB", cap_ / MiB,
                cap / MiB);
    cap_ = cap;
    (void)shrink_to(limit());
  }
  return limit() < before;
}

void HandlePool::abandon(const Pieces& pieces) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  if (bytes > 0) log::warn("{} MiB of device memory cannot be unmapped and are lost", bytes / MiB);
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

[[gnu::hot]] Status HandlePool::set_outside(std::uint64_t bytes) {
  if (bytes == taken_outside_ && bytes <= outside_) return Done{};
  // More than plans leave alone: what a plan lacks now and then costs less than handles that come and go.
  const std::uint64_t most_reserved = std::max({2 * page, std::min(cap_ / 16, 32 * page), cap_ / 64});
  taken_outside_ = bytes;
  if (bytes < outside_ && outside_ <= bytes + most_reserved) {
    note_peak();
    return Done{};
  }
  if (const auto shrunk = shrink_to(cap_ > bytes ? cap_ - bytes : 0); !shrunk) return shrunk.error();
  outside_ = bytes;
  most_outside_ = std::max(most_outside_, bytes);
  note_peak();
  return Done{};
}

bool HandlePool::give_up_reserved() {
  const bool any = outside_ > taken_outside_;
  outside_ = taken_outside_;
  return any;
}

void HandlePool::note_peak() {
  peak_ = std::max(peak_, created_ + taken_outside_);
}

}  // namespace pooch::runtime

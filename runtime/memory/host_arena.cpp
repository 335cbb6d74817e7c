#include "runtime/memory/host_arena.h"

#include <algorithm>

#include "core/log.h"
#include "runtime/memory/memory_limits.h"

namespace pooch::runtime {
namespace {
// As much again as there is: who needs little does not wait for much.
constexpr std::uint64_t least_piece = 32 * MiB, most_piece = 256 * MiB;
}  // namespace

HostArena::~HostArena() {
  for (const HostExtent& piece : pieces_)
    if (!handles_.contains(piece.memory)) (void)device_.host_free(piece.memory);
  for (const auto& [memory, made] : handles_) (void)device_.destroy_host({made.handle, memory}, made.bytes);
}

void HostArena::insert(HostExtent extent) {
  if (const auto handle = handles_.find(extent.memory); handle != handles_.end() && handle->second.whole) {
    free_handles_[extent.bytes].push_back(extent.memory);
    return;
  }
  free_bytes_ += extent.bytes;
  const auto it = free_.emplace(extent.memory, extent.bytes).first;
  // Pieces are allocations of their own: a copy must not run from one into another that happens to touch it.
  const auto joins = [this](const auto& left, const auto& right) {
    return left.first + left.second == right.first &&
           std::none_of(pieces_.begin(), pieces_.end(),
                        [&](const HostExtent& p) { return p.memory == right.first; });
  };
  if (const auto next = std::next(it); next != free_.end() && joins(*it, *next)) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  const auto before = std::prev(it);
  if (!joins(*before, *it)) return;
  before->second += it->second;
  free_.erase(it);
}

Status HostArena::collect() {
  for (std::size_t i = 0; i < cooling_down_.size();) {
    const auto cold = order_.finished(cooling_down_[i].second);
    if (!cold) return cold.error();
    if (!*cold) {
      ++i;
      continue;
    }
    for (const HostExtent& e : cooling_down_[i].first) insert(e);
    cooling_down_[i] = std::move(cooling_down_.back());
    cooling_down_.pop_back();
  }
  return Done{};
}

Status HostArena::grow(std::uint64_t bytes) {
  const std::uint64_t piece = std::clamp(locked_, least_piece, most_piece);
  const std::uint64_t wanted = std::min(std::max(bytes, piece), budget_ - locked_);
  const auto memory = device_.host_allocate(wanted);
  if (!memory) {
    log::warn("page-locking {} MiB of host memory failed ({}): going on with {} MiB", wanted / MiB,
              memory.error().message, locked_ / MiB);
    budget_ = locked_;
    return Error{ErrorCode::out_of_memory, memory.error().message};
  }
  pieces_.push_back({*memory, wanted});
  locked_ += wanted;
  insert({*memory, wanted});
  return Done{};
}

Result<HostSlot> HostArena::allocate(std::uint64_t bytes) {
  bytes = round_up(bytes, page);
  if (free_bytes_ < bytes)
    if (const auto collected = collect(); !collected) return collected.error();
  if (free_bytes_ < bytes && budget_ - locked_ >= bytes - free_bytes_)
    if (const auto grown = grow(bytes - free_bytes_); !grown) return grown.error();
  if (free_bytes_ < bytes) break_up_handles(bytes - free_bytes_);
  if (free_bytes_ < bytes) return Error{ErrorCode::out_of_memory, "the host budget is exhausted"};
  HostSlot slot;
  // One extent where possible: copies in one piece are faster.
  const auto whole =
      std::find_if(free_.begin(), free_.end(), [&](const auto& e) { return e.second >= bytes; });
  for (auto it = whole != free_.end() ? whole : free_.begin(); bytes > 0;) {
    const std::uint64_t taken = std::min(bytes, it->second);
    const HostExtent rest{it->first + taken, it->second - taken};
    slot.push_back({it->first, taken});
    it = free_.erase(it);
    if (rest.bytes > 0) free_.emplace(rest.memory, rest.bytes);
    bytes -= taken;
    free_bytes_ -= taken;
  }
  return slot;
}

void HostArena::break_up_handles(std::uint64_t bytes) {
  for (auto& [size, memories] : free_handles_) {
    for (; bytes > 0 && !memories.empty(); memories.pop_back()) {
      std::byte* const memory = memories.back();
      break_up({{memory, size}});
      insert({memory, size});
      bytes -= std::min(bytes, size);
    }
  }
}

void HostArena::break_up(const HostSlot& slot) {
  for (const HostExtent& extent : slot) {
    const auto handle = handles_.find(extent.memory);
    if (handle == handles_.end() || !std::exchange(handle->second.whole, false)) continue;
    pieces_.push_back({extent.memory, handle->second.bytes});
  }
}

Result<HostSlot> HostArena::allocate_handle(std::uint64_t bytes) {
  auto& free = free_handles_[bytes];
  if (free.empty())
    if (const auto collected = collect(); !collected) return collected.error();
  if (free.empty()) {
    if (!more_handles_ || budget_ - locked_ < bytes)
      return Error{ErrorCode::out_of_memory, "the host budget is exhausted"};
    const auto made = device_.create_host(bytes);
    if (!made) {
      more_handles_ = false;
      log::warn("a handle of {} MiB of host memory failed ({}): less of what is evicted lands", bytes / MiB,
                made.error().message);
      return Error{ErrorCode::out_of_memory, made.error().message};
    }
    handles_.emplace(made->memory, Handle{made->handle, bytes});
    locked_ += bytes;
    return HostSlot{{made->memory, bytes}};
  }
  std::byte* const memory = free.back();
  free.pop_back();
  return HostSlot{{memory, bytes}};
}

std::optional<PhysicalHandle> HostArena::handle_of(const HostSlot& slot) const {
  const auto found = slot.size() == 1 ? handles_.find(slot.front().memory) : handles_.end();
  return found != handles_.end() && found->second.whole ? std::optional(found->second.handle) : std::nullopt;
}

void HostArena::free(HostSlot slot, Mark last_use) {
  if (!slot.empty()) cooling_down_.emplace_back(std::move(slot), last_use);
}

std::optional<Mark> HostArena::busy() const {
  if (cooling_down_.empty()) return std::nullopt;
  return cooling_down_.front().second;
}

}  // namespace pooch::runtime

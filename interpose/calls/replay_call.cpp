#include "interpose/calls/replay_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace pooch::interpose {
namespace {

constinit std::mutex replays;

}  // namespace

// An operand's own access begins where it points to; one inside of a larger access is found by its place.
KeptOperand::KeptOperand(std::span<const Access> accesses, std::uint64_t address) : offset_(address) {
  if (address == 0) return;
  const auto begins_here = [&](const Access& access) { return raw(access.address) == address; };
  const auto contains = [&](const Access& access) {
    return raw(access.address) <= address && address - raw(access.address) < access.bytes;
  };
  auto found = std::find_if(accesses.begin(), accesses.end(), begins_here);
  if (found == accesses.end()) found = std::find_if(accesses.begin(), accesses.end(), contains);
  if (found == accesses.end()) return;
  access_ = static_cast<std::uint32_t>(found - accesses.begin());
  offset_ = address - raw(found->address);
}

KeptScalar::KeptScalar(const void* from, std::size_t bytes)
    : null_(from == nullptr), known_(null_ || (bytes > 0 && bytes <= bytes_.size())) {
  if (!null_ && known_) std::memcpy(bytes_.data(), from, bytes);
}

ReplayGuard::ReplayGuard() : lock_(replays) {
  scope_.emplace();
  if (!scope_->outermost()) scope_.reset();
}

Status replay_status(const char* function, int status) {
  if (status == 0) return Done{};
  return Error{ErrorCode::device, fmt::format("{}, made again, gives {}", function, status), status};
}

Status wrong_operands(const char* function, std::size_t given, std::size_t wanted) {
  return Error{ErrorCode::internal,
               fmt::format("{} is to be made again with {} operands; it had {}", function, given, wanted)};
}

}  // namespace pooch::interpose

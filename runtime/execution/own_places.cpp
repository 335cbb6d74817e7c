#include "runtime/execution/own_places.h"

#include <utility>

#include "core/pages.h"

namespace pooch::runtime {
namespace {

bool comes_and_goes(const ProfileBuffer& buffer) {
  return buffer.managed && buffer.from > 0 && buffer.until != outside;
}

// Buffers of an iteration at each address.
std::map<Address, int> users_of(const KnownPhase& phase) {
  std::map<Address, int> users;
  for (std::size_t b = 0; b < phase.bases.size(); ++b) {
    if (phase.bases[b] == Address{}) continue;
    ++users[phase.bases[b]];
    if (phase.alternates[b]) ++users[phase.earlier[b]];
  }
  return users;
}

// By buffer: its number among all that are allocated before the same op.
std::vector<std::uint32_t> numbers_of(const PhaseProfile& phase) {
  std::vector<std::uint32_t> numbers(phase.buffers.size(), 0);
  std::map<std::int32_t, std::uint32_t> made;  // by position
  for (const MemoryEvent& event : phase.memory)
    if (event.allocated) numbers[event.buffer] = made[event.before]++;
  return numbers;
}

}  // namespace

const OwnPlaces::Places& OwnPlaces::places(const KnownPhase& phase) {
  const auto at = places_.try_emplace(phase.index).first;
  // A phase of any size may have outgrown those that it had.
  if (!at->second.empty() && at->second.size() == phase.bases.size() && !outgrown(at->second, phase))
    return at->second;
  at->second.assign(phase.bases.size(), std::nullopt);
  const std::map<Address, int> users = users_of(phase);
  std::set<AddressHabits::Allocation> taken;
  const auto index = static_cast<std::uint32_t>(phase.index);
  const std::vector<std::uint32_t> numbers = numbers_of(phase.profile);
  for (std::uint32_t b = 0; b < phase.bases.size(); ++b) {
    const ProfileBuffer& buffer = phase.profile.buffers[b];
    const Address base = phase.bases[b];
    if (!comes_and_goes(buffer) || base == Address{} || !phase.quiet[b]) continue;
    if (phase.fixed[b] && users.at(base) == 1 && !phase.any_size) continue;  // it has already
    const std::uint64_t bytes = round_up(buffer.bytes, page);
    const auto position = static_cast<std::uint64_t>(buffer.from);
    const auto allocation = phase.any_size
                                ? std::optional(AddressHabits::Allocation{index, position, 0, numbers[b]})
                                : space_.made_at(base, bytes, index, position);
    if (!allocation || !taken.insert(*allocation).second) continue;
    const auto address = space_.set_aside(bytes, base);
    if (!address) break;
    residency_.close(residency_.open(*address, bytes, AllocationId::none, bytes), {});
    addresses_.insert(*address);
    at->second[b] = Own{*allocation, *address};
  }
  return at->second;
}

bool OwnPlaces::outgrown(const Places& places, const KnownPhase& phase) const {
  for (std::size_t b = 0; b < places.size(); ++b)
    if (places[b] && space_.bytes(places[b]->address) < phase.profile.buffers[b].bytes) return true;
  return false;
}

std::vector<Range*> OwnPlaces::of(const KnownPhase& phase) {
  std::vector<Range*> all;
  for (const auto& own : places(phase)) all.push_back(own ? residency_.find(own->address) : nullptr);
  return all;
}

void OwnPlaces::offer(const std::vector<const KnownPhase*>& phases) {
  for (const KnownPhase* phase : phases) {
    offered_.insert(phase->index);
    for (const auto& own : places(*phase))
      if (own) space_.prefer(own->allocation, own->address);
  }
}

void OwnPlaces::withdraw() {
  for (const tracker::PhaseIndex phase : std::exchange(offered_, {}))
    for (const auto& own : places_[phase])
      if (own) space_.avoid(own->allocation, own->address);
}

void OwnPlaces::forget() {
  withdraw();
  places_.clear();
  addresses_.clear();
}

}  // namespace pooch::runtime

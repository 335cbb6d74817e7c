#include "runtime/memory/address_habits.h"

#include <algorithm>
#include <utility>

namespace pooch::runtime {

AddressHabits::Allocation AddressHabits::next(const When& when, std::uint64_t bytes) {
  if (when.number) return {when.phase, when.position, 0, *when.number};
  if (std::exchange(step_, when.start + when.position) != when.start + when.position) made_.clear();
  return {when.phase, when.position, bytes, made_[bytes]++};
}

std::span<const Address> AddressHabits::earlier(const Allocation& of) const {
  const auto found = earlier_.find(of);
  return found == earlier_.end() ? std::span<const Address>() : found->second;
}

bool AddressHabits::is_anothers(Address address, const Allocation& than) const {
  const auto latest = latest_at_.find(address);
  return latest != latest_at_.end() && latest->second.phase == than.phase && latest->second != than;
}

void AddressHabits::note(const Allocation& of, Address address) {
  constexpr std::size_t most = 1 << 18;  // a program that never repeats itself has no habits
  if (earlier_.size() >= most) earlier_.clear(), latest_at_.clear();
  std::vector<Address>& all = earlier_[of];
  std::erase(all, address);
  all.insert(all.begin(), address);
  if (all.size() > most_earlier) all.pop_back();
  latest_at_.insert_or_assign(address, of);
}

void AddressHabits::forget(const Allocation& of, Address address) {
  if (const auto found = earlier_.find(of); found != earlier_.end()) std::erase(found->second, address);
  if (const auto latest = latest_at_.find(address); latest != latest_at_.end() && latest->second == of)
    latest_at_.erase(latest);
}

std::optional<AddressHabits::Allocation> AddressHabits::at(Address address, std::uint32_t phase,
                                                           std::uint64_t position,
                                                           std::uint64_t bytes) const {
  std::optional<Allocation> best;
  std::size_t ago = most_earlier;
  for (auto it = earlier_.lower_bound({phase, position, bytes, 0});
       it != earlier_.end() && it->first < Allocation{phase, position, bytes + 1, 0}; ++it) {
    const auto found = std::find(it->second.begin(), it->second.end(), address);
    const auto past = static_cast<std::size_t>(found - it->second.begin());
    if (found != it->second.end() && past < ago) best = it->first, ago = past;
  }
  return best;
}

}  // namespace pooch::runtime

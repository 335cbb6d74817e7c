#include "runtime/execution/known_places.h"

#include <set>

namespace pooch::runtime {

KnownPlaces::KnownPlaces(Residency& residency, const AddressSpace& temporaries, OwnPlaces& own) : own_(own) {
  std::vector<Address> bases;
  residency.each_range([&](const Range& range) {
    if (!temporaries.contains(range.base) && !own.contains(range)) bases.push_back(range.base);
  });
  for (const Address base : bases) {
    index_.emplace(base, static_cast<std::uint32_t>(ranges_.size()));
    ranges_.push_back(residency.find(base));
  }
}

std::vector<ProfileRange> KnownPlaces::described() const {
  std::vector<ProfileRange> all;
  for (const Range* range : ranges_) all.push_back({range->bytes, range->in_use});
  return all;
}

std::uint32_t KnownPlaces::at(Address base, std::uint64_t bytes) const {
  const auto found = index_.find(base);
  return found != index_.end() && ranges_[found->second]->bytes >= bytes ? found->second : none;
}

std::vector<std::vector<std::uint32_t>> KnownPlaces::of(const KnownPhase& phase) {
  const std::vector<ProfileBuffer>& buffers = phase.profile.buffers;
  std::vector<std::vector<std::uint32_t>> all(buffers.size());
  const std::vector<Range*> own = own_.of(phase);
  std::set<std::uint32_t> shared{none};
  for (std::size_t b = 0; b < phase.bases.size(); ++b)
    if (phase.fixed[b] && own[b] == nullptr) shared.insert(at(phase.bases[b], buffers[b].bytes));
  for (std::size_t b = 0; b < phase.bases.size(); ++b) {
    if (own[b] != nullptr) {
      all[b] = {static_cast<std::uint32_t>(ranges_.size())};
      ranges_.push_back(own[b]);
      continue;
    }
    const std::uint32_t range = at(phase.bases[b], buffers[b].bytes);
    const std::uint32_t other = phase.alternates[b] ? at(phase.earlier[b], buffers[b].bytes) : none;
    if (range != none && other != none) {
      all[b] = {range, other};
    } else if (range != none && shared.contains(range)) {
      // One that was elsewhere in an early iteration may lie where others do: it needs its time there as
      // well.
      all[b] = {range};
    }
  }
  return all;
}

}  // namespace pooch::runtime

#include "runtime/observe/any_size.h"

#include <algorithm>
#include <numeric>

namespace pooch::runtime {
namespace {

// The largest iteration may be to come, the less likely the more there were. What the driver serves is small.
std::uint64_t with_room_to_grow(const SeenBytes& seen, bool managed, std::uint64_t iterations) {
  if (seen.least == seen.most) return seen.most;
  return managed ? seen.most + seen.most / std::clamp<std::uint64_t>(iterations / 2, 8, 32) : 2 * seen.most;
}

// Whether the two have the same buffers, versions, ops and memory events, whatever their sizes.
bool same_form(const PhaseProfile& a, const PhaseProfile& b) {
  const auto same_op = [](const ProfileOp& x, const ProfileOp& y) {
    return x.reads == y.reads && x.writes == y.writes && x.scratch == y.scratch && x.operands == y.operands;
  };
  const auto same_buffer = [](const ProfileBuffer& x, const ProfileBuffer& y) {
    return x.from == y.from && x.until == y.until;
  };
  const auto same_event = [](const MemoryEvent& x, const MemoryEvent& y) {
    return x.before == y.before && x.buffer == y.buffer && x.allocated == y.allocated;
  };
  return a.versions.size() == b.versions.size() && std::ranges::equal(a.ops, b.ops, same_op) &&
         std::ranges::equal(a.buffers, b.buffers, same_buffer) &&
         std::ranges::equal(a.memory, b.memory, same_event);
}

}  // namespace

std::vector<std::uint64_t> volumes_of(const tracker::OpLog& log, tracker::StepIndex start,
                                      tracker::StepIndex end) {
  std::vector<std::uint64_t> all;
  all.reserve(end - start);
  for (tracker::StepIndex step = start; step < end; ++step) {
    std::uint64_t bytes = 0;
    for (const tracker::Operand& operand : log.operands(step)) bytes += operand.bytes;
    all.push_back(bytes);
  }
  return all;
}

bool has_room(const PhaseProfile& phase, std::size_t position, std::span<const tracker::Operand> operands) {
  const std::vector<std::uint32_t>& buffers = phase.ops[position].operands;
  if (buffers.size() != operands.size()) return false;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (buffers[i] != no_buffer && operands[i].offset + operands[i].bytes > phase.buffers[buffers[i]].bytes)
      return false;
  return true;
}

bool has_room(const PhaseProfile& phase, const tracker::OpLog& log, tracker::StepIndex start) {
  for (std::size_t p = 0; p < phase.ops.size(); ++p)
    if (!has_room(phase, p, log.operands(start + p))) return false;
  return true;
}

void cover(KnownPhase& latest, const KnownPhase& before, std::uint64_t iterations) {
  const auto sum = [](const KnownPhase& phase) {
    return std::accumulate(phase.volumes.begin(), phase.volumes.end(), std::uint64_t{0});
  };
  const bool smaller = sum(latest) < sum(before);
  if (!same_form(latest.profile, before.profile)) {
    // By chance something was freed at another time: the larger one counts.
    if (smaller) latest = before;
    return;
  }
  std::vector<SeenBytes> seen = before.seen_bytes;
  for (std::size_t b = 0; b < seen.size(); ++b) {
    seen[b].least = std::min(seen[b].least, latest.seen_bytes[b].least);
    seen[b].most = std::max(seen[b].most, latest.seen_bytes[b].most);
  }
  const std::vector<ProfileBuffer> other = (smaller ? latest : before).profile.buffers;
  if (smaller) {
    latest.profile = before.profile;
    latest.volumes = before.volumes;
    latest.local_keys = before.local_keys;
  }
  latest.seen_bytes = std::move(seen);
  for (std::size_t b = 0; b < other.size(); ++b) {
    ProfileBuffer& buffer = latest.profile.buffers[b];
    buffer.managed |= other[b].managed;
    buffer.bytes = with_room_to_grow(latest.seen_bytes[b], buffer.managed, iterations);
  }
}

std::vector<double> scales(std::span<const std::uint64_t> volumes, std::span<const std::uint64_t> timed,
                           std::size_t ops) {
  std::vector<double> all(ops, 1);
  if (volumes.size() != ops || timed.size() != ops) return all;
  for (std::size_t i = 0; i < ops; ++i)
    if (timed[i] > 0) all[i] = static_cast<double>(volumes[i]) / static_cast<double>(timed[i]);
  return all;
}

}  // namespace pooch::runtime

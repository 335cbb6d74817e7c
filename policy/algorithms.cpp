#include "policy/algorithms.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "policy/problem.h"

namespace pooch::policy {
namespace {

bool better(const Algorithm& a, const Algorithm& b, Preference preference) {
  return preference == Preference::memory ? std::tie(a.workspace, a.us) < std::tie(b.workspace, b.us)
                                          : std::tie(a.us, a.workspace) < std::tie(b.us, b.workspace);
}

// What is too small to be moved is not managed.
void resize(ProfileBuffer& buffer, std::uint64_t bytes) {
  const bool was_small = buffer.bytes < granularity;
  buffer.bytes = std::max<std::uint64_t>(1, bytes);
  buffer.managed = buffer.bytes >= granularity && (buffer.managed || was_small);
}

}  // namespace

Algorithms::Algorithms(const Profile& profile, const PhaseProfile& phase)
    : profile_(profile), phase_(phase), has_content_(phase.buffers.size(), false) {
  for (const ProfileVersion& version : phase.versions) has_content_[version.buffer] = true;
}

// None where the workspace is a part of something else, so that its size cannot be changed.
const std::vector<Algorithm>& Algorithms::of(std::int32_t position) const {
  static const std::vector<Algorithm> none;
  const ProfileOp& op = phase_.ops[position];
  if (op.trials == 0 || op.scratch.size() > 1) return none;
  if (!op.scratch.empty() && has_content_[op.scratch.front()]) return none;
  return profile_.trials[op.trials - 1].algorithms;
}

bool Algorithms::any() const {
  for (std::size_t p = 0; p < phase_.ops.size(); ++p)
    if (!of(static_cast<std::int32_t>(p)).empty()) return true;
  return false;
}

Picks Algorithms::preferred(Preference preference) const {
  Picks picks(phase_.ops.size(), 0);
  for (std::size_t p = 0; p < picks.size(); ++p) {
    const std::vector<Algorithm>& list = of(static_cast<std::int32_t>(p));
    const auto best = std::min_element(list.begin(), list.end(), [&](const Algorithm& a, const Algorithm& b) {
      return better(a, b, preference);
    });
    const auto pick = static_cast<std::uint32_t>(best - list.begin()) + 1;
    if (!list.empty() && pick != phase_.ops[p].algorithm) picks[p] = pick;
  }
  return picks;
}

std::uint64_t Algorithms::workspace(const Picks& picks, std::int32_t position) const {
  const ProfileOp& op = phase_.ops[position];
  const std::vector<Algorithm>& list = of(position);
  const std::uint32_t runs = picks[position] != 0 ? picks[position] : op.algorithm;
  if (runs != 0 && !list.empty()) return list[runs - 1].workspace;
  return op.scratch.empty() ? 0 : phase_.buffers[op.scratch.front()].bytes;
}

bool Algorithms::lessen(Picks& picks, std::int32_t position) const {
  const std::vector<Algorithm>& list = of(position);
  const std::uint64_t now = workspace(picks, position);
  std::uint32_t found = 0;
  for (std::uint32_t i = 0; i < list.size(); ++i) {
    if (list[i].workspace >= now) continue;
    if (found == 0 || better(list[i], list[found - 1], Preference::performance)) found = i + 1;
  }
  if (found != 0) picks[position] = found;
  return found != 0;
}

std::uint32_t Algorithms::add_workspace(PhaseProfile& to, std::int32_t position, std::uint64_t bytes) const {
  const auto index = static_cast<std::uint32_t>(to.buffers.size());
  to.buffers.push_back({bytes, bytes >= granularity, position, position + 1});
  to.memory.push_back({position, index, true});
  to.memory.push_back({position + 1, index, false});
  return index;
}

PhaseProfile Algorithms::applied(const Picks& picks) const {
  PhaseProfile made = phase_;
  std::vector<bool> changed(phase_.buffers.size(), false);
  for (std::size_t i = 0; i < picks.size(); ++i) {
    if (picks[i] == 0) continue;
    const auto p = static_cast<std::int32_t>(i);
    ProfileOp& op = made.ops[i];
    const Algorithm& algorithm = of(p)[picks[i] - 1];
    op.us = algorithm.us;
    op.algorithm = picks[i];
    for (const std::uint32_t buffer : op.scratch) changed[buffer] = true;
    if (algorithm.workspace == 0)
      op.scratch.clear();
    else if (op.scratch.empty())
      op.scratch = {add_workspace(made, p, algorithm.workspace)};
  }
  // Several ops may share a workspace: it is as large as the largest of them needs.
  std::vector<std::uint64_t> needed(phase_.buffers.size(), 0);
  for (std::size_t p = 0; p < made.ops.size(); ++p) {
    for (const std::uint32_t buffer : made.ops[p].scratch) {
      if (buffer >= needed.size() || !changed[buffer]) continue;
      needed[buffer] = std::max(needed[buffer], workspace(picks, static_cast<std::int32_t>(p)));
    }
  }
  for (std::size_t b = 0; b < needed.size(); ++b)
    if (changed[b]) resize(made.buffers[b], needed[b]);
  std::stable_sort(made.memory.begin(), made.memory.end(),
                   [](const MemoryEvent& a, const MemoryEvent& b) { return a.before < b.before; });
  return made;
}

std::vector<PlanAlgorithm> Algorithms::described(const Picks& picks) const {
  std::vector<std::string_view> layer_of(phase_.ops.size());
  for (const Layer& layer : phase_.graph.layers)
    for (const auto* positions : {&layer.forward, &layer.backward})
      for (const std::int32_t p : *positions) layer_of[p] = layer.name;
  std::vector<PlanAlgorithm> list;
  for (std::size_t i = 0; i < picks.size(); ++i) {
    if (picks[i] == 0) continue;
    const auto p = static_cast<std::int32_t>(i);
    const ProfileOp& op = phase_.ops[i];
    const std::vector<Algorithm>& tried = of(p);
    const Algorithm& takes = tried[picks[i] - 1];
    list.push_back({p, fmt::format("{} {}", layer_of[i], name(op.kind)), takes.name,
                    op.algorithm == 0 ? "" : tried[op.algorithm - 1].name, takes.us / 1e3, op.us / 1e3,
                    takes.workspace});
  }
  return list;
}

}  // namespace pooch::policy

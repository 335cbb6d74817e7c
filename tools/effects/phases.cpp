#include "tools/effects/phases.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "tools/effects/opcodes.h"

namespace pooch::effects {
namespace {

using Graph = Phases::Graph;

// What orders threads in other ways, reaches other blocks' memory, or leads to who knows where.
bool shares_otherwise(const Instruction& one) {
  constexpr std::array<std::string_view, 6> others = {"SYNCS",       "STAS",         "REDAS",
                                                      "UCGABAR_ARV", "UCGABAR_WAIT", "WARPGROUP"};
  if (one.never) return false;
  const auto action = action_of(one);
  if (!action) return true;
  switch (*action) {
    case Action::call:  // what lies elsewhere: no function that is known stores there, but copies to a
                        // cluster
      return std::any_of(one.operands.begin(), one.operands.end(),
                         [](const Operand& o) { return o.kind == OperandKind::label; });
    case Action::ret:
    case Action::indirect_branch:
    case Action::bulk_copy:
    case Action::bulk_reduction:
    case Action::tensor_load:
    case Action::tensor_store:
    case Action::tensor_reduction:
      return true;
    default:
      return (one.name == "BAR" && !is_full_barrier(one)) || one.name.starts_with("UTC") ||
             one.name.starts_with("LDT") || one.name.starts_with("STT") ||
             std::find(others.begin(), others.end(), one.name) != others.end();
  }
}

// From `first` on, without passing through `without`.
std::vector<bool> reachable(const Graph& successors, std::size_t first, std::optional<std::size_t> without) {
  std::vector<bool> seen(successors.size());
  if (first == without) return seen;
  std::vector<std::size_t> waiting{first};
  seen[first] = true;
  while (!waiting.empty()) {
    const std::size_t block = waiting.back();
    waiting.pop_back();
    for (const std::size_t next : successors[block])
      if (next != without && !seen[next]) seen[next] = true, waiting.push_back(next);
  }
  return seen;
}

// Those that no cycle leads to are taken away; what is left may lie on one.
std::vector<bool> repeating(const Graph& successors) {
  std::vector<std::size_t> into(successors.size());
  for (const auto& all : successors)
    for (const std::size_t next : all) ++into[next];
  std::vector<std::size_t> free;
  for (std::size_t block = 0; block < into.size(); ++block)
    if (into[block] == 0) free.push_back(block);
  std::vector<bool> repeats(successors.size(), true);
  while (!free.empty()) {
    const std::size_t block = free.back();
    free.pop_back();
    repeats[block] = false;
    for (const std::size_t next : successors[block])
      if (--into[next] == 0) free.push_back(next);
  }
  return repeats;
}

std::size_t root_of(std::vector<std::size_t>& parents, std::size_t of) {
  while (parents[of] != of) of = parents[of] = parents[parents[of]];
  return of;
}

}  // namespace

bool is_full_barrier(const Instruction& one) {
  return one.name == "BAR" && one.has("SYNC") && !one.guard && !one.never && one.operands.size() == 1 &&
         one.operands[0].kind == OperandKind::immediate && one.operands[0].number == 0;
}

std::optional<Phases> Phases::find(const Code& code, const std::vector<std::size_t>& lasts,
                                   const Graph& successors) {
  if (std::any_of(code.instructions.begin(), code.instructions.end(), shares_otherwise)) return std::nullopt;
  std::vector<std::size_t> barriers;
  for (std::size_t block = 0; block < lasts.size(); ++block)
    if (is_full_barrier(code.instructions[lasts[block]])) barriers.push_back(block);
  if (barriers.empty()) return std::nullopt;
  for (std::size_t i = 0; i + 1 < barriers.size(); ++i)
    if (reachable(successors, 0, barriers[i])[barriers[i + 1]]) return std::nullopt;

  // Two blocks are of one region where a way between them passes no barrier.
  const std::size_t count = lasts.size();
  std::vector<std::size_t> parents(count);
  std::iota(parents.begin(), parents.end(), 0);
  std::vector<bool> ends(count);
  for (const std::size_t block : barriers) ends[block] = true;
  for (std::size_t block = 0; block < count; ++block)
    for (const std::size_t next : successors[block])
      if (!ends[block]) parents[root_of(parents, next)] = root_of(parents, block);
  Phases found;
  found.successors_ = successors;
  std::map<std::size_t, std::size_t> numbers;
  for (std::size_t block = 0; block < count; ++block)
    found.region_.push_back(numbers.emplace(root_of(parents, block), numbers.size()).first->second);

  Graph regions(numbers.size());
  for (const std::size_t block : barriers)
    for (const std::size_t next : successors[block])
      regions[found.region_[block]].insert(found.region_[next]);
  for (std::size_t region = 0; region < regions.size(); ++region)
    found.after_.push_back(reachable(regions, region, std::nullopt));
  found.repeats_ = repeating(successors);
  return found;
}

}  // namespace pooch::effects

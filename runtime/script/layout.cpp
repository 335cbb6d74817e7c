#include "runtime/script/layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/pages.h"
#include "runtime/script/layout_ways.h"

namespace pooch::runtime {
namespace {

// Those that all spans have come first. How many are mapped in a round.
std::uint64_t order_frames(std::vector<std::vector<std::uint32_t>>& spans) {
  std::map<std::uint32_t, std::size_t> uses;
  for (auto& frames : spans) {
    std::sort(frames.begin(), frames.end());
    for (const std::uint32_t frame : frames) ++uses[frame];
  }
  const auto common = static_cast<std::size_t>(
      std::count_if(uses.begin(), uses.end(), [&](const auto& use) { return use.second == spans.size(); }));
  for (auto& frames : spans)
    std::stable_partition(frames.begin(), frames.end(),
                          [&](std::uint32_t frame) { return uses[frame] == spans.size(); });
  std::uint64_t moves = 0;
  for (std::size_t s = 0; s < spans.size(); ++s) {
    const auto& next = spans[(s + 1) % spans.size()];
    if (spans[s] != next) moves += next.size() - common;
  }
  return moves;
}

double cost_of(const Layout& layout, std::uint64_t limit, double move_us) {
  const std::uint64_t over = layout.bytes() > limit ? layout.bytes() - limit : 0;
  return wait_cost * layout.wait_us + static_cast<double>(layout.moves) * move_us +
         static_cast<double>(over / page) * 1e5;
}

}  // namespace

Layout lay_out_roughly(const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us) {
  std::optional<Layout> best;
  for (const double share : {1.0, 2.0, 0.5})
    for (const double slack_us : {0.0, 2000.0, 10000.0})
      for (const bool new_first : {true, false}) {
        Taste taste;
        taste.meets_again = share * taste.conflict;
        taste.slack_us = slack_us;
        taste.new_before_conflict = new_first;
        Layout made = lay_out_by_time(items, limit, taste);
        if (!best || cost_of(made, limit, move_us) < cost_of(*best, limit, move_us)) best = std::move(made);
        if (cost_of(*best, limit, move_us) == 0) return std::move(*best);
      }
  return std::move(*best);
}

Layout frames_from(const std::vector<LayoutItem>& items, const std::vector<Tenancies>& all, double wait_us) {
  Layout layout;
  layout.wait_us = wait_us;
  std::map<std::vector<Tenant>, std::uint32_t> frame_of;
  layout.frames_of.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) layout.frames_of[i].resize(items[i].held.size());
  for (const Tenancies& some : all) {
    const auto [at, fresh] =
        frame_of.try_emplace(some.tenants, static_cast<std::uint32_t>(layout.frames.size()));
    if (!fresh) {
      layout.frames[at->second] += some.pages * page;
      continue;
    }
    layout.frames.push_back(some.pages * page);
    for (const Tenant& tenant : some.tenants)
      layout.frames_of[tenant.item][tenant.span].push_back(at->second);
  }
  for (auto& spans : layout.frames_of) layout.moves += order_frames(spans);
  return layout;
}

std::uint64_t most_at_once(const std::vector<LayoutItem>& items) {
  std::map<std::int32_t, std::int64_t> change;
  for (const LayoutItem& item : items)
    for (const LayoutSpan& span : item.held) {
      change[span.from] += static_cast<std::int64_t>(item.bytes);
      change[span.to + 1] -= static_cast<std::int64_t>(item.bytes);
    }
  std::int64_t now = 0, most = 0;
  for (const auto& [step, by] : change) most = std::max(most, now += by);
  return static_cast<std::uint64_t>(most);
}

Layout lay_out(const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us) {
  // Nor is there a layout in less than what is there at once.
  const std::uint64_t room = std::max(limit, most_at_once(items));
  Layout one = improve(lay_out_roughly(items, room, move_us), items, room, move_us);
  if (cost_of(one, room, move_us) == 0) return one;
  auto other = lay_out_by_blocks(items, room, move_us);
  return other && cost_of(*other, room, move_us) < cost_of(one, room, move_us) ? std::move(*other) : one;
}

}  // namespace pooch::runtime

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/pages.h"
#include "runtime/script/layout_ways.h"

namespace pooch::runtime {
namespace {

// Where most of the memory is for items of one size, a network's pieces, it is divided into blocks of that
// size, and each of their stays has a whole block. The others are packed at offsets from the start of the
// memory, as low as they can be. The memory that they take behind the rest of the division is cut into
// *crates* of a block's size: a crate is in some block whenever anything is in it.
//
//   | rest |  block  |  block  |  block  | ... |  block  |     memory
//   | rest |  crate  |  crate  |                               others
//
// Stays of the alike and of crates are then given to blocks as stays of single pages would be.
class ByBlocks {
 public:
  ByBlocks(const std::vector<LayoutItem>& items, std::uint64_t limit)
      : items_(items),
        unit_(usual_size()),
        blocks_(limit / page / unit_),
        rest_(limit / page % unit_),
        offsets_(items.size()) {
    for (std::uint32_t i = 0; i < items.size(); ++i) (pages(i) == unit_ ? alike_ : others_).push_back(i);
    place_others();
    for (std::uint64_t from = rest_; from < top_; from += unit_) crates_.push_back(crate(from));
  }

  std::uint64_t blocks() const { return blocks_; }
  // Stays of blocks, as if those were pages.
  std::vector<LayoutItem> coarse() const {
    std::vector<LayoutItem> all;
    for (const std::uint32_t item : alike_) all.push_back({page, items_[item].held});
    for (const Crate& each : crates_) all.push_back(each.as_item);
    return all;
  }
  // `coarse`: a layout of those.
  Layout layout(const Layout& coarse) const {
    std::vector<std::vector<Piece>> of_block(coarse.frames.size());
    for (std::uint32_t c = 0; c < coarse.frames_of.size(); ++c)
      for (std::uint32_t s = 0; s < coarse.frames_of[c].size(); ++s) {
        auto& block = of_block[coarse.frames_of[c][s].front()];
        if (c < alike_.size()) {
          block.push_back({0, unit_, {alike_[c], s}});
        } else {
          const auto& in = crates_[c - alike_.size()].in[s];
          block.insert(block.end(), in.begin(), in.end());
        }
      }
    std::vector<Tenancies> all;
    break_up(within(0, rest_), rest_, all);
    for (const auto& block : of_block) break_up(block, unit_, all);
    return frames_from(items_, all, coarse.wait_us);
  }

 private:
  // What a stay has of a block, in pages from its start.
  struct Piece {
    std::uint64_t from, to;
    Tenant tenant;
  };
  struct Crate {
    LayoutItem as_item;
    std::vector<std::vector<Piece>> in;  // by stay of that
  };

  std::uint64_t pages(std::uint32_t item) const { return items_[item].bytes / page; }
  const LayoutSpan& span(const Tenant& tenant) const { return items_[tenant.item].held[tenant.span]; }
  static std::uint64_t steps(const LayoutSpan& of) { return static_cast<std::uint64_t>(of.to + 1 - of.from); }
  // Pages of the items that hold most memory for most steps.
  std::uint64_t usual_size() const {
    std::map<std::uint64_t, std::uint64_t> held;
    for (const LayoutItem& item : items_)
      for (const LayoutSpan& each : item.held) held[item.bytes / page] += item.bytes / page * steps(each);
    return std::max_element(held.begin(), held.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }
  // They meet, or one would wait for the other.
  bool disturb(std::uint32_t a, std::uint32_t b) const {
    const auto clear = [](const LayoutSpan& before, const LayoutSpan& after) {
      return before.to < after.from && before.free_us <= after.start_us;
    };
    for (const LayoutSpan& mine : items_[a].held)
      for (const LayoutSpan& its : items_[b].held)
        if (!clear(mine, its) && !clear(its, mine)) return true;
    return false;
  }
  // First fit. Those that are there when most blocks are taken come first, then those that stay longest.
  void place_others() {
    const std::vector<std::uint64_t> taken = blocks_taken();
    std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t>> ranked;
    for (const std::uint32_t item : others_) {
      std::uint64_t most = 0, sum = 0;
      for (const LayoutSpan& each : items_[item].held) {
        sum += steps(each);
        const auto begin = taken.begin() + each.from;
        most = std::max(most, *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(steps(each))));
      }
      ranked.emplace_back(most, sum, pages(item), item);
    }
    std::sort(ranked.rbegin(), ranked.rend());
    std::vector<std::uint32_t> placed;  // by offset
    for (const auto& [most, sum, size, item] : ranked) {
      std::uint64_t offset = 0;
      for (const std::uint32_t other : placed)
        if (offset < offsets_[other] + pages(other) && offsets_[other] < offset + size &&
            disturb(item, other))
          offset = offsets_[other] + pages(other);
      offsets_[item] = offset;
      top_ = std::max(top_, offset + size);
      placed.insert(std::partition_point(placed.begin(), placed.end(),
                                         [&](std::uint32_t other) { return offsets_[other] <= offset; }),
                    item);
    }
  }
  // By step, of the alike.
  std::vector<std::uint64_t> blocks_taken() const {
    std::int32_t last = 0;
    for (const LayoutItem& item : items_) last = std::max(last, item.held.back().to);
    std::vector<std::uint64_t> taken(static_cast<std::size_t>(last) + 1);
    for (const std::uint32_t item : alike_)
      for (const LayoutSpan& each : items_[item].held)
        for (std::int32_t step = each.from; step <= each.to; ++step) ++taken[static_cast<std::size_t>(step)];
    return taken;
  }
  // What others have of so many pages from an offset on.
  std::vector<Piece> within(std::uint64_t from, std::uint64_t count) const {
    std::vector<Piece> all;
    for (const std::uint32_t item : others_) {
      const std::uint64_t begin = std::max(from, offsets_[item]),
                          end = std::min(from + count, offsets_[item] + pages(item));
      for (std::uint32_t s = 0; begin < end && s < items_[item].held.size(); ++s)
        all.push_back({begin - from, end - from, {item, s}});
    }
    std::sort(all.begin(), all.end(),
              [this](const Piece& a, const Piece& b) { return span(a.tenant).from < span(b.tenant).from; });
    return all;
  }
  Crate crate(std::uint64_t from) const {
    Crate made{{page, {}}, {}};
    std::vector<LayoutSpan>& spans = made.as_item.held;
    for (const Piece& piece : within(from, unit_)) {
      const LayoutSpan& mine = span(piece.tenant);
      if (spans.empty() || spans.back().to < mine.from) {
        spans.push_back(mine);
        made.in.push_back({piece});
        continue;
      }
      LayoutSpan& last = spans.back();
      last.to = std::max(last.to, mine.to);
      last.start_us = std::min(last.start_us, mine.start_us);
      last.free_us = std::max(last.free_us, mine.free_us);
      last.crosses |= mine.crosses;
      made.in.back().push_back(piece);
    }
    return made;
  }
  // Memory is cut where somebody's piece begins or ends.
  void break_up(const std::vector<Piece>& pieces, std::uint64_t count, std::vector<Tenancies>& all) const {
    std::vector<std::uint64_t> cuts{0, count};
    for (const Piece& piece : pieces) cuts.insert(cuts.end(), {piece.from, piece.to});
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (std::size_t c = 1; c < cuts.size(); ++c) {
      Tenancies some{cuts[c] - cuts[c - 1], {}};
      for (const Piece& piece : pieces)
        if (piece.from <= cuts[c - 1] && piece.to >= cuts[c]) some.tenants.push_back(piece.tenant);
      std::sort(some.tenants.begin(), some.tenants.end(),
                [this](const Tenant& a, const Tenant& b) { return span(a).from < span(b).from; });
      if (!some.tenants.empty()) all.push_back(std::move(some));
    }
  }

  const std::vector<LayoutItem>& items_;
  const std::uint64_t unit_;                   // pages of a block
  const std::uint64_t blocks_, rest_;          // their number; pages below them
  std::vector<std::uint32_t> alike_, others_;  // items
  std::vector<std::uint64_t> offsets_;         // by item, of the others: pages
  std::uint64_t top_ = 0;                      // pages: where the others end
  std::vector<Crate> crates_;
};

}  // namespace

std::optional<Layout> lay_out_by_blocks(const std::vector<LayoutItem>& items, std::uint64_t limit,
                                        double move_us) {
  constexpr std::size_t fewest = 2, most = 4000;  // what is packed takes time that grows with their square
  if (items.size() < fewest || items.size() > most) return std::nullopt;
  const ByBlocks blocks(items, limit);
  const std::vector<LayoutItem> coarse = blocks.coarse();
  const std::uint64_t room = blocks.blocks() * page;
  if (most_at_once(coarse) > room) return std::nullopt;
  constexpr std::uint32_t most_seeds = 4;  // where memory is tight one search fits, and the next does not
  const Layout rough = lay_out_roughly(coarse, room, move_us);
  for (std::uint32_t seed = 1; seed <= most_seeds; ++seed) {
    const Layout of_blocks = improve(rough, coarse, room, move_us, seed);
    if (of_blocks.bytes() <= room) return improve(blocks.layout(of_blocks), items, limit, move_us);
  }
  return std::nullopt;
}

}  // namespace pooch::runtime

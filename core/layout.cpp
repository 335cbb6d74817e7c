#include "core/layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "core/pages.h"

namespace pooch {
namespace {

// The first thing wrong is kept.
class LayoutCheck {
 public:
  explicit LayoutCheck(const PlanLayout& layout) : all_(layout) {}

  std::string run() {
    for (const auto stage :
         {&LayoutCheck::phases, &LayoutCheck::frames, &LayoutCheck::items, &LayoutCheck::tenants}) {
      (this->*stage)();
      if (!wrong_.empty()) break;
    }
    return std::move(wrong_);
  }

 private:
  template <class... Parts>
  void fail(std::string_view what, fmt::format_string<Parts...> path, Parts&&... parts) {
    if (wrong_.empty())
      wrong_ = fmt::format("/layout/{} {}", fmt::format(path, std::forward<Parts>(parts)...), what);
  }

  void phases() {
    if (all_.phases.empty()) return fail("is empty: at least one phase", "phases");
    for (std::size_t i = 1; i < all_.phases.size(); ++i)
      if (all_.phases[i - 1] >= all_.phases[i])
        return fail("is not behind the one before it: ids in ascending order", "phases/{}", i);
  }
  void frames() {
    for (std::size_t i = 0; i < all_.layout.frames.size(); ++i)
      if (const std::uint64_t bytes = all_.layout.frames[i]; bytes == 0 || bytes % page != 0)
        return fail(fmt::format("is {}: a multiple of {}", bytes, page), "frames/{}", i);
  }
  void items() {
    for (std::size_t i = 0; i < all_.items.size() && wrong_.empty(); ++i) {
      const LayoutItem& item = all_.items[i];
      if (item.held.empty()) return fail("is empty: at least one stay", "items/{}/stays", i);
      for (std::size_t s = 0; s < item.held.size() && wrong_.empty(); ++s) stay(i, s);
    }
  }
  void stay(std::size_t i, std::size_t s) {
    const LayoutItem& item = all_.items[i];
    const LayoutSpan& span = item.held[s];
    const std::int32_t least = s == 0 ? 0 : item.held[s - 1].to + 1;
    if (span.from < least)
      return fail(fmt::format("is {}: a step from {} on", span.from, least), "items/{}/stays/{}/from", i, s);
    if (span.to < span.from)
      return fail(fmt::format("is {}: a step from {} on", span.to, span.from), "items/{}/stays/{}/to", i, s);
    std::uint64_t bytes = 0;
    for (const std::uint32_t frame : all_.layout.frames_of[i][s]) {
      if (frame >= all_.layout.frames.size())
        return fail(fmt::format("has {}: frames below {}", frame, all_.layout.frames.size()),
                    "items/{}/stays/{}/frames", i, s);
      bytes += all_.layout.frames[frame];
    }
    if (bytes != item.bytes)
      return fail(fmt::format("has {} bytes: the item's {}", bytes, item.bytes), "items/{}/stays/{}/frames",
                  i, s);
    border(i, s);
  }
  // What crosses the border of an iteration stays where it is.
  void border(std::size_t i, std::size_t s) {
    const auto& held = all_.items[i].held;
    const auto first = std::find_if(held.begin(), held.end(), [](const LayoutSpan& h) { return h.crosses; });
    if (held[s].crosses && all_.layout.frames_of[i][s] != all_.layout.frames_of[i][first - held.begin()])
      fail("has others than the stay before it that crosses: the same", "items/{}/stays/{}/frames", i, s);
  }
  void tenants() {
    using Tenancy = std::tuple<std::uint32_t, std::int32_t, std::int32_t, std::size_t>;
    std::vector<Tenancy> all;  // frame, from, to, item
    for (std::size_t i = 0; i < all_.items.size(); ++i)
      for (std::size_t s = 0; s < all_.items[i].held.size(); ++s)
        for (const std::uint32_t frame : all_.layout.frames_of[i][s])
          all.emplace_back(frame, all_.items[i].held[s].from, all_.items[i].held[s].to, i);
    std::sort(all.begin(), all.end());
    for (std::size_t t = 1; t < all.size(); ++t) {
      const auto& [frame, from, to, item] = all[t];
      const auto& [before, since, until, other] = all[t - 1];
      if (frame == before && from <= until)
        return fail(
            fmt::format("is item {}'s and item {}'s at step {}: one tenant at a time", other, item, from),
            "frames/{}", frame);
    }
  }

  const PlanLayout& all_;
  std::string wrong_;
};

}  // namespace

bool same_stays(const std::vector<LayoutItem>& some, const std::vector<LayoutItem>& others) {
  const auto same_item = [](const LayoutItem& a, const LayoutItem& b) {
    if (a.bytes != b.bytes || a.held.size() != b.held.size()) return false;
    for (std::size_t s = 0; s < a.held.size(); ++s) {
      const LayoutSpan &mine = a.held[s], &other = b.held[s];
      const bool arrives = s > 0 && mine.crosses;
      if (mine.to != other.to || mine.crosses != other.crosses || (!arrives && mine.from != other.from))
        return false;
    }
    return true;
  };
  return std::equal(some.begin(), some.end(), others.begin(), others.end(), same_item);
}

std::string what_is_wrong(const PlanLayout& layout) {
  return LayoutCheck(layout).run();
}

}  // namespace pooch

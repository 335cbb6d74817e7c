#include "runtime/execution/layout_finder.h"

#include <fmt/core.h>

#include <utility>

#include "core/bytes.h"
#include "core/log.h"

namespace pooch::runtime {
namespace {

// What the host needs to map a frame anew: an H200 takes 50 us for unmap, map and access on an idle device,
// and 1 ms beside copies to the host (docs/decisions/0079), which are under way most of the time.
constexpr double move_us = 1000;
// Of an iteration. A plan for a little less memory costs less than the device waiting longer, or the host
// mapping longer. The first layouts must do with less than those after them; what comes then is taken as it
// is.
struct Patience {
  double waits, mapping;
};
constexpr Patience at_first{0.003, 0.25}, later{0.05, 0.5};
constexpr int first_layouts = 3;  // of those that are given up for that

}  // namespace

Result<const Layout*> LayoutFinder::find(std::vector<LayoutItem> items, std::uint64_t room,
                                         double duration_us) {
  if (items != items_ || room != room_) search(std::move(items), room);
  shortfall_ = found_.bytes() > room ? found_.bytes() - room : 0;
  took_too_long_ = shortfall_ == 0 && takes_too_long(duration_us);
  if (shortfall_ > 0)
    return Error{ErrorCode::out_of_memory,
                 fmt::format("the layout needs {} more memory", format_bytes(shortfall_))};
  if (!took_too_long_) return &found_;
  ++wasteful_;
  shortfall_ = room / 64;
  return Error{ErrorCode::out_of_memory, "the layout takes too long"};
}

// The program waits for this. What no layout can do with is not looked for.
void LayoutFinder::search(std::vector<LayoutItem> items, std::uint64_t room) {
  items_ = std::move(items);
  room_ = room;
  found_ = {};
  const std::uint64_t at_once = most_at_once(items_);
  if (at_once > room) {
    found_.frames = {at_once};
    return;
  }
  found_ = lay_out(items_, room, move_us);
  log::info("layout: {} ({} at once) of {} in {} frames, expected waits {:.1f} ms, {} mapped in an iteration",
            format_bytes(found_.bytes()), format_bytes(at_once), format_bytes(room), found_.frames.size(),
            found_.wait_us / 1e3, found_.moves);
}

bool LayoutFinder::takes_too_long(double duration_us) const {
  if (wasteful_ == all_layouts) return false;
  const Patience most = wasteful_ < first_layouts ? at_first : later;
  return found_.wait_us > most.waits * duration_us ||
         static_cast<double>(found_.moves) * move_us > most.mapping * duration_us;
}

}  // namespace pooch::runtime

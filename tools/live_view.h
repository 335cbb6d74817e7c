// What `pooch top` shows of a session.
#pragma once

#include <string>
#include <vector>

#include "core/live.h"

namespace pooch::tools {

struct LiveView {
  Live live;
  std::string program;  // what runs, as people know it; may be empty
  bool ended = false;   // the process is gone
};

struct LiveStyle {
  std::size_t width = 80;  // columns
  bool colour = false, unicode = false;
};

// A few lines: state, time against prediction and in-core, memory as bars, link, what costs most, and the
// latest warning. None is wider than the style says.
std::string live_text(const LiveView& view, const LiveStyle& style);
// A line for each, where there are many.
std::string live_table(const std::vector<LiveView>& views, const LiveStyle& style);
// An array with an object for each.
std::string live_json(const std::vector<LiveView>& views);

}  // namespace pooch::tools

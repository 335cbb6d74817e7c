#include "traced_iterations.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/json_cursor.h"
#include "text_file.h"

namespace pooch::tools {
namespace {

// What matters of an event.
struct Event {
  std::string kind, name, row_name, mode;
  std::uint64_t row = 0;
  double at_us = 0;
};

void read(JsonCursor& in, Event& event) {
  in.members([&](std::string_view key) {
    if (key == "ph") {
      in.text(event.kind);
    } else if (key == "name") {
      in.text(event.name);
    } else if (key == "ts") {
      event.at_us = in.real(std::numeric_limits<double>::max());
    } else if (key == "tid") {
      in.whole(event.row, std::numeric_limits<std::uint64_t>::max());
    } else if (key == "args") {
      in.members([&](std::string_view argument) {
        if (argument == "name")
          in.text(event.row_name);
        else if (argument == "mode")
          in.text(event.mode);
        else
          in.skip();
      });
    } else {
      in.skip();
    }
  });
}

// What matters of the events, which may be a million.
struct Marks {
  struct Begin {
    double at_us;
    std::string phase;
    bool planned;
  };
  std::optional<std::uint64_t> row;  // of the iterations
  std::vector<Begin> iterations;     // in order

  void note(const Event& event) {
    if (event.kind == "M" && event.name == "thread_name" && event.row_name == "iterations")
      row = event.row;
    else if (event.kind == "X" && event.row == row)
      iterations.push_back({event.at_us, event.name, event.mode == "plan"});
  }
};

}  // namespace

Result<std::vector<TracedIteration>> traced_iterations(const std::string& path, const std::string& phase) {
  const auto text = read_text(path);
  if (!text) return text.error();
  Marks marks;
  JsonCursor in(*text);
  bool has_events = false;
  in.members([&](std::string_view key) {
    if (key != "traceEvents") return in.skip();
    has_events = true;
    in.array([&] {
      Event event;
      read(in, event);
      if (in.good()) marks.note(event);
    });
  });
  in.finish();
  if (!in.good()) return Error{ErrorCode::invalid_argument, in.error()};
  if (!has_events) return Error{ErrorCode::invalid_argument, "/traceEvents is missing"};
  std::vector<TracedIteration> found;
  for (std::size_t i = 0; i + 1 < marks.iterations.size(); ++i) {
    const auto& [from, name, planned] = marks.iterations[i];
    const double to = marks.iterations[i + 1].at_us;
    if (name != phase) continue;
    found.push_back({(to - from) / 1e3, planned});
  }
  return found;
}

std::vector<double> settled_ms(const std::vector<TracedIteration>& iterations) {
  std::vector<double> ms;
  for (std::size_t i = std::min(usual_lead, iterations.size() / 2); i < iterations.size(); ++i)
    ms.push_back(iterations[i].ms);
  return ms;
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace pooch::tools

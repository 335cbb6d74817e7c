#include "traced_iterations.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

namespace pooch::tools {
namespace {

using Json = nlohmann::json;

// What matters of the events, which may be a million.
struct Marks {
  struct Begin {
    double at_us;
    std::string phase;
    bool planned;
  };
  std::optional<double> row;      // of the iterations
  std::vector<Begin> iterations;  // in order

  void note(const Json& event);
};

// Empty, or `otherwise`, where it is not there or of another type.
std::string text_of(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}
double number_of(const Json& object, const char* key, double otherwise) {
  return object.contains(key) && object[key].is_number() ? object[key].get<double>() : otherwise;
}

void Marks::note(const Json& event) {
  const std::string kind = text_of(event, "ph"), name = text_of(event, "name");
  const Json& arguments = event.contains("args") ? event["args"] : Json::object();
  const double at_us = number_of(event, "ts", 0);
  const double in_row = number_of(event, "tid", -1);
  if (kind == "M" && name == "thread_name" && text_of(arguments, "name") == "iterations")
    row = in_row;
  else if (kind == "X" && in_row == row)
    iterations.push_back({at_us, name, text_of(arguments, "mode") == "plan"});
}

}  // namespace

Result<std::vector<TracedIteration>> traced_iterations(const std::string& path, const std::string& phase) {
  std::ifstream in(path);
  if (!in) return Error{ErrorCode::invalid_argument, "it cannot be opened"};
  Marks marks;
  // Events are noted as they come and not kept.
  const auto drop_events = [&](int depth, Json::parse_event_t part, Json& parsed) {
    constexpr int event_depth = 2;
    if (depth != event_depth || part != Json::parse_event_t::object_end) return true;
    marks.note(parsed);
    return false;
  };
  if (Json::parse(in, drop_events, /*allow_exceptions=*/false).is_discarded())
    return Error{ErrorCode::invalid_argument, "it is no JSON"};
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

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/profile.h"
#include "core/utf8.h"

namespace pooch {
namespace {

using Text = fmt::memory_buffer;

// ---- values

void put(Text& out, std::string_view text) {
  out.append(text.data(), text.data() + text.size());
}

// What no text of a profile may hold becomes '?'.
void put_quoted(Text& out, std::string_view text) {
  out.push_back('"');
  while (!text.empty()) {
    const std::size_t size = utf8_character(text);
    if (text.front() == '"' || text.front() == '\\') out.push_back('\\');
    put(out, size == 0 ? "?" : text.substr(0, size));
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  out.push_back('"');
}

// The shortest text that reads as the same number. JSON has no word for what is not finite.
void put_number(Text& out, double number) {
  if (std::isfinite(number)) {
    fmt::format_to(std::back_inserter(out), "{}", number);
  } else {
    put(out, "null");
  }
}
template <class Integer>
void put_number(Text& out, Integer number) {
  const fmt::format_int text(number);
  put(out, {text.data(), text.size()});
}

template <class List>
void put_list(Text& out, const List& list, std::size_t count) {
  out.push_back('[');
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out.push_back(',');
    put_number(out, list[i]);
  }
  out.push_back(']');
}

// ---- objects on one line

// {"key":value,…}: what has its default value is left out where that is said.
class Line {
 public:
  explicit Line(Text& out) : out_(out) { out_.push_back('{'); }
  ~Line() { out_.push_back('}'); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  template <class Number>
  void number(std::string_view name, Number value) {
    key(name);
    put_number(out_, value);
  }
  template <class Number>
  void number_unless(Number usual, std::string_view name, Number value) {
    if (value != usual) number(name, value);
  }
  void text(std::string_view name, std::string_view value) {
    key(name);
    put_quoted(out_, value);
  }
  void text_if_any(std::string_view name, std::string_view value) {
    if (!value.empty()) text(name, value);
  }
  void flag(std::string_view name, bool value) {
    key(name);
    put(out_, value ? "true" : "false");
  }
  void flag_if_set(std::string_view name, bool value) {
    if (value) flag(name, true);
  }
  template <class Number>
  void list_if_any(std::string_view name, const std::vector<Number>& values) {
    if (values.empty()) return;
    key(name);
    put_list(out_, values, values.size());
  }
  void operands_if_any(const std::vector<std::uint32_t>& buffers);
  void shape_if_any(std::string_view name, const Shape& shape);
  void substitute(const ProfileSubstitute& substitute);
  void window_if_any(const Window& window);
  // A list of what `put_element(element)` writes.
  template <class T, class Put>
  void each_if_any(std::string_view name, const std::vector<T>& values, Put&& put_element) {
    if (values.empty()) return;
    key(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      out_.push_back(i == 0 ? '[' : ',');
      put_element(values[i]);
    }
    out_.push_back(']');
  }

 private:
  void key(std::string_view name) {
    if (!first_) out_.push_back(',');
    first_ = false;
    out_.push_back('"');
    put(out_, name);
    put(out_, "\":");
  }
  template <class Array>
  void array(std::string_view name, const Array& values, std::size_t count) {
    key(name);
    put_list(out_, values, std::min(count, values.size()));
  }

  Text& out_;
  bool first_ = true;
};

void Line::operands_if_any(const std::vector<std::uint32_t>& buffers) {
  if (buffers.empty()) return;
  key("operands");
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    out_.push_back(i == 0 ? '[' : ',');
    put_number(out_, buffers[i] == no_buffer ? std::int64_t{-1} : std::int64_t{buffers[i]});
  }
  out_.push_back(']');
}

void Line::shape_if_any(std::string_view name, const Shape& shape) {
  if (shape == Shape{}) return;
  key(name);
  Line inner(out_);
  inner.array("sizes", shape.sizes, shape.rank);
  inner.number("element_bytes", shape.element_bytes);
}

void Line::substitute(const ProfileSubstitute& substitute) {
  key("substitute");
  Line inner(out_);
  inner.list_if_any("reads", substitute.reads);
  inner.list_if_any("makes", substitute.makes);
  inner.number_unless(outside, "through", substitute.through);
  if (substitute.clip != Clip::none) inner.text("clip", name(substitute.clip));
  if (substitute.formula) inner.text("formula", name(*substitute.formula));
  inner.number_unless(0., "us", substitute.us);
}

void Line::window_if_any(const Window& window) {
  if (window == Window{}) return;
  key("window");
  Line inner(out_);
  inner.array("size", window.size, window.rank);
  const auto unless_zero = [&](std::string_view name, const std::array<std::int32_t, 3>& values) {
    if (values != std::array<std::int32_t, 3>{}) inner.array(name, values, window.rank);
  };
  unless_zero("stride", window.stride);
  unless_zero("padding", window.padding);
  unless_zero("dilation", window.dilation);
  inner.number_unless(1, "groups", window.groups);
}

void put_line(Text& out, const ProfileBuffer& buffer, std::size_t id) {
  Line line(out);
  line.number("id", id);
  line.number("bytes", buffer.bytes);
  line.flag_if_set("managed", buffer.managed);
  line.number_unless(outside, "from", buffer.from);
  line.number_unless(outside, "until", buffer.until);
  line.list_if_any("ranges", buffer.ranges);
}

void put_line(Text& out, const ProfileRange& range, std::size_t id) {
  Line line(out);
  line.number("id", id);
  line.number("bytes", range.bytes);
  line.flag_if_set("in_use", range.in_use);
}

void put_line(Text& out, const ProfileVersion& version, std::size_t id) {
  Line line(out);
  line.number("id", id);
  line.number("buffer", version.buffer);
  line.number_unless(std::uint64_t{0}, "offset", version.offset);
  line.number("bytes", version.bytes);
  line.text("role", name(version.role));
  line.number_unless(outside, "producer", version.producer);
  line.list_if_any("readers", version.readers);
}

void put_line(Text& out, const ProfileOp& op, std::size_t id) {
  Line line(out);
  line.number("id", id);
  line.text("key", fmt::format("{:016x}", op.key));
  line.number("function", op.function);
  line.text("kind", name(op.kind));
  line.text_if_any("mode", op.mode);
  line.number_unless(0u, "stream", op.stream);
  line.number("us", op.us);
  line.number_unless(0., "gap_us", op.gap_us);
  line.flag_if_set("outlier", op.outlier);
  line.list_if_any("reads", op.reads);
  line.list_if_any("writes", op.writes);
  line.list_if_any("scratch", op.scratch);
  line.operands_if_any(op.operands);
  line.shape_if_any("shape", op.shape);
  line.shape_if_any("filter", op.filter);
  line.window_if_any(op.window);
  if (op.site != 0) line.number("site", op.site - 1);
  if (op.trials != 0) line.number("trials", op.trials - 1);
  if (op.algorithm != 0) line.number("algorithm", op.algorithm - 1);
  if (op.substitute) line.substitute(*op.substitute);
}

std::string_view end_of_copy(bool to_device) {
  return to_device ? "device" : "host";
}

void put_line(Text& out, const ProfileCopy& copy, std::size_t) {
  Line line(out);
  line.number("before", copy.before);
  line.text("to", end_of_copy(copy.to_device));
  line.number("bytes", copy.bytes);
  line.number_unless(0u, "stream", copy.stream);
  line.number("us", copy.us);
  line.number_unless(0.0, "lead_us", copy.lead_us);
  if (copy.version) line.number("version", *copy.version);
}

void put_line(Text& out, const MemoryEvent& event, std::size_t) {
  Line line(out);
  line.number("before", event.before);
  line.number(event.allocated ? "allocate" : "free", event.buffer);
}

void put_line(Text& out, const Layer& layer, std::size_t id) {
  Line line(out);
  line.number("id", id);
  line.text("name", layer.name);
  line.text("kind", layer.kind);
  line.list_if_any("inputs", layer.inputs);
  line.number("output", layer.output);
  line.shape_if_any("shape", layer.shape);
  line.number("bytes", layer.bytes);
  line.window_if_any(layer.window);
  line.list_if_any("forward", layer.forward);
  line.list_if_any("backward", layer.backward);
  line.number_unless(0., "forward_us", layer.forward_us);
  line.number_unless(0., "backward_us", layer.backward_us);
}

void put_line(Text& out, const Map& map, std::size_t id) {
  Line line(out);
  line.number("id", id);
  line.text("name", map.name);
  line.number("bytes", map.bytes);
  line.flag("kept", map.kept);
  line.number("memory", map.memory);
  line.list_if_any("versions", map.versions);
}

void put_line(Text& out, const LayerGraph::Edge& edge, std::size_t) {
  put_list(out, std::array{edge.from, edge.to}, 2);
}

void put_line(Text& out, const std::string& function, std::size_t) {
  put_quoted(out, function);
}

void put_line(Text& out, const LinkSample& sample, std::size_t) {
  Line line(out);
  line.text("to", end_of_copy(sample.to_device));
  line.number("bytes", sample.bytes);
  line.number("us", sample.us);
  line.flag_if_set("both_ways", sample.both_ways);
}

void put_line(Text& out, const MoveSample& sample, std::size_t) {
  Line line(out);
  line.number("handles", sample.handles);
  line.number("bytes", sample.bytes);
  line.number("us", sample.us);
}

void put_line(Text& out, const Module& module, std::size_t id) {
  Line line(out);
  line.number("id", id);
  line.text_if_any("path", module.path);
  line.text_if_any("build_id", module.build_id);
}

void put_line(Text& out, const CallSite& site, std::size_t id) {
  Line line(out);
  line.number("id", id);
  line.each_if_any("frames", site.frames, [&](const CallFrame& frame) {
    put_list(out, std::array<std::uint64_t, 2>{frame.module, frame.offset}, 2);
  });
  line.each_if_any("python", site.python, [&](const std::string& frame) { put_quoted(out, frame); });
}

void put_line(Text& out, const Trials& trials, std::size_t id) {
  Line line(out);
  line.number("id", id);
  line.each_if_any("algorithms", trials.algorithms, [&](const Algorithm& algorithm) {
    Line inner(out);
    inner.text("name", algorithm.name);
    inner.number("us", algorithm.us);
    inner.number_unless(std::uint64_t{0}, "workspace", algorithm.workspace);
  });
}

// ---- one field, or one element of a list, per line

template <class T>
void put_lines(Text& out, std::string_view key, const std::vector<T>& list) {
  if (list.empty()) return;
  fmt::format_to(std::back_inserter(out), ",\n\"{}\":[", key);
  for (std::size_t i = 0; i < list.size(); ++i) {
    put(out, i == 0 ? "\n" : ",\n");
    put_line(out, list[i], i);
  }
  put(out, "\n]");
}

void put_field(Text& out, std::string_view key, std::string_view text) {
  fmt::format_to(std::back_inserter(out), ",\n\"{}\":", key);
  put_quoted(out, text);
}
template <class Number>
void put_number_field(Text& out, std::string_view key, Number number) {
  fmt::format_to(std::back_inserter(out), ",\n\"{}\":", key);
  put_number(out, number);
}

void put_phase(Text& out, const PhaseProfile& phase) {
  put(out, "{\n\"id\":");
  put_quoted(out, phase.id);
  put_field(out, "kind", phase.kind);
  put_number_field(out, "seen", phase.seen);
  put_number_field(out, "measured", phase.measured);
  put_number_field(out, "iteration_us", phase.iteration_us);
  if (phase.turn != outside) put_number_field(out, "turn", phase.turn);
  put_lines(out, "layers", phase.graph.layers);
  put_lines(out, "maps", phase.graph.maps);
  put_lines(out, "edges", phase.graph.edges);
  put_lines(out, "functions", phase.functions);
  if (phase.ops.empty()) put(out, ",\n\"ops\":[]");
  put_lines(out, "ops", phase.ops);
  put_lines(out, "versions", phase.versions);
  put_lines(out, "buffers", phase.buffers);
  put_lines(out, "copies", phase.copies);
  put_lines(out, "memory", phase.memory);
  put(out, "\n}");
}

}  // namespace

std::string_view name(Role role) {
  switch (role) {
    case Role::feature_map:
      return "feature_map";
    case Role::activation:
      return "activation";
    case Role::gradient:
      return "gradient";
    case Role::parameter:
      return "parameter";
    case Role::input:
      break;
  }
  return "input";
}

std::string to_json(const Profile& profile) {
  Text out;
  fmt::format_to(std::back_inserter(out), "{{\n\"schema\":{}", profile.schema);
  put_field(out, "device", profile.device);
  put_number_field(out, "device_bytes", profile.device_bytes);
  put_number_field(out, "cap_bytes", profile.cap_bytes);
  put_number_field(out, "host_budget_bytes", profile.host_budget_bytes);
  put_number_field(out, "need_bytes", profile.need_bytes);
  if (profile.outside_bytes > 0) put_number_field(out, "outside_bytes", profile.outside_bytes);
  put_field(out, "policy", profile.policy);
  if (!profile.timer.empty()) put_field(out, "timer", profile.timer);
  put_number_field(out, "iterations", profile.iterations);
  put_number_field(out, "ops", profile.ops);
  put_lines(out, "link", profile.link);
  put_lines(out, "moves", profile.moves);
  if (profile.launch_us > 0) put_number_field(out, "launch_us", profile.launch_us);
  put_lines(out, "modules", profile.modules);
  put_lines(out, "sites", profile.sites);
  put_lines(out, "trials", profile.trials);
  put_lines(out, "ranges", profile.ranges);
  put(out, ",\n\"phases\":[");
  for (std::size_t i = 0; i < profile.phases.size(); ++i) {
    put(out, i == 0 ? "\n" : ",\n");
    put_phase(out, profile.phases[i]);
  }
  put(out, "\n]\n}\n");
  return fmt::to_string(out);
}

}  // namespace pooch

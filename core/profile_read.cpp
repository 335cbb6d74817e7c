#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "core/json_cursor.h"
#include "core/profile.h"
#include "core/profile_check.h"

namespace pooch {
namespace {

using In = JsonCursor;
constexpr std::uint64_t most_index = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t most_position = std::numeric_limits<std::int32_t>::max();

// ---- values

void count(In& in, std::uint64_t& out) {
  in.whole(out, most_count);
}
void index(In& in, std::uint32_t& out) {
  in.whole(out, most_index);
}
void position(In& in, std::int32_t& out) {
  in.whole(out, most_position);
}
void stream(In& in, std::uint32_t& out) {
  in.whole(out, most_streams - 1);
}
void bytes(In& in, std::uint64_t& out) {
  in.whole(out, most_bytes);
}
void some_bytes(In& in, std::uint64_t& out) {
  bytes(in, out);
  if (out == 0) in.refuse(fmt::format("a whole number from 1 to {}", most_bytes));
}
void time(In& in, double& out) {
  out = in.real(most_us);
}
void indices(In& in, std::vector<std::uint32_t>& out) {
  in.array([&] { index(in, out.emplace_back()); });
}
void positions(In& in, std::vector<std::int32_t>& out) {
  in.array([&] { position(in, out.emplace_back()); });
}
// Of -1 there is no buffer.
void operands(In& in, std::vector<std::uint32_t>& out) {
  in.array([&] {
    const std::int64_t buffer = in.integer(most_index);
    if (buffer < -1) in.refuse("a buffer's index, or -1");
    out.push_back(buffer < 0 ? no_buffer : static_cast<std::uint32_t>(buffer));
  });
}
// "to": "device" or "host"
void direction(In& in, bool& to_device) {
  const std::string_view text = in.word();
  to_device = text == "device";
  if (!to_device && text != "host") in.refuse("\"device\" or \"host\"");
}

void hexadecimal(In& in, std::uint64_t& out) {
  const std::string_view text = in.word();
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, out, 16);
  if (problem != std::errc{} || stop != end) in.refuse("up to 16 hexadecimal digits in quotes");
}

void kind(In& in, OpKind& out) {
  const std::string_view text = in.word();
  if (const auto known = parse_op_kind(text)) {
    out = *known;
    return;
  }
  std::string accepted = "a kind of op:";
  for (int i = 0; i <= static_cast<int>(last_op_kind); ++i)
    accepted += fmt::format("{} {}", i == 0 ? "" : ",", name(static_cast<OpKind>(i)));
  in.refuse(accepted);
}

void role(In& in, Role& out) {
  const std::string_view text = in.word();
  constexpr int roles = static_cast<int>(Role::input) + 1;
  for (int i = 0; i < roles; ++i) {
    out = static_cast<Role>(i);
    if (name(out) == text) return;
  }
  std::string accepted = "a role:";
  for (int i = 0; i < roles; ++i) {
    out = static_cast<Role>(i);
    accepted += fmt::format("{} {}", i == 0 ? "" : ",", name(out));
  }
  in.refuse(accepted);
}

// ---- shapes

void sizes(In& in, Shape& out) {
  in.array([&] {
    std::int32_t size = 0;
    in.whole(size, most_position);
    if (out.rank == max_rank) return in.refuse(fmt::format("one size too many, {} are accepted", max_rank));
    out.sizes[out.rank++] = size;
  });
}

constexpr JsonField<Shape> shape_fields[] = {
    {"sizes", true, sizes},
    {"element_bytes", true, [](In& in, Shape& shape) { in.whole(shape.element_bytes, 255); }},
};

void shape(In& in, Shape& out) {
  in.object(out, shape_fields);
  std::uint64_t size = out.element_bytes;
  for (int i = 0; i < out.rank; ++i) {
    // Empty dimensions are left aside, so that the order of the sizes does not matter.
    if (const auto one = static_cast<std::uint64_t>(out.sizes[i]); one > 0 && size > 0) {
      if (size > most_bytes / one) return in.refuse(fmt::format("a shape of at most {} bytes", most_bytes));
      size *= one;
    }
  }
}

// How many numbers each list had.
struct WindowText {
  Window window;
  std::uint8_t size = 0, stride = 0, padding = 0, dilation = 0;
};

void extents(In& in, std::array<std::int32_t, 3>& out, std::uint8_t& rank) {
  in.array([&] {
    std::int32_t one = 0;
    in.whole(one, most_position);
    if (rank == out.size()) return in.refuse(fmt::format("one number too many, {} are accepted", out.size()));
    out[rank++] = one;
  });
}

constexpr JsonField<WindowText> window_fields[] = {
    {"size", true, [](In& in, WindowText& w) { extents(in, w.window.size, w.size); }},
    {"stride", false, [](In& in, WindowText& w) { extents(in, w.window.stride, w.stride); }},
    {"padding", false, [](In& in, WindowText& w) { extents(in, w.window.padding, w.padding); }},
    {"dilation", false, [](In& in, WindowText& w) { extents(in, w.window.dilation, w.dilation); }},
    {"groups", false, [](In& in, WindowText& w) { in.whole(w.window.groups, most_position); }},
};

void window(In& in, Window& out) {
  WindowText text;
  in.object(text, window_fields);
  for (const std::uint8_t other : {text.stride, text.padding, text.dilation}) {
    if (other != 0 && other != text.size) return in.refuse("a window whose lists are of one length");
  }
  out = text.window;
  out.rank = text.size;
}

// ---- the lines of a phase

// "id": the element's index, so that lines can be found by it.
template <class T>
struct Line {
  T& value;
  std::size_t index;
};
template <class T>
void id(In& in, Line<T>& line) {
  if (in.whole(most_index) != line.index) in.refuse(fmt::format("its place in the list, {}", line.index));
}

template <class T, std::size_t n>
void lines(In& in, std::vector<T>& out, const JsonField<Line<T>> (&fields)[n]) {
  in.array([&] {
    out.emplace_back();
    Line<T> line{out.back(), out.size() - 1};
    in.object(line, fields);
  });
}

constexpr JsonField<Line<ProfileBuffer>> buffer_fields[] = {
    {"id", true, id},
    {"bytes", true, [](In& in, Line<ProfileBuffer>& b) { some_bytes(in, b.value.bytes); }},
    {"managed", false, [](In& in, Line<ProfileBuffer>& b) { b.value.managed = in.boolean(); }},
    {"from", false, [](In& in, Line<ProfileBuffer>& b) { position(in, b.value.from); }},
    {"until", false, [](In& in, Line<ProfileBuffer>& b) { position(in, b.value.until); }},
    {"ranges", false, [](In& in, Line<ProfileBuffer>& b) { indices(in, b.value.ranges); }},
};

constexpr JsonField<Line<ProfileVersion>> version_fields[] = {
    {"id", true, id},
    {"buffer", true, [](In& in, Line<ProfileVersion>& v) { index(in, v.value.buffer); }},
    {"offset", false, [](In& in, Line<ProfileVersion>& v) { bytes(in, v.value.offset); }},
    {"bytes", true, [](In& in, Line<ProfileVersion>& v) { some_bytes(in, v.value.bytes); }},
    {"role", true, [](In& in, Line<ProfileVersion>& v) { role(in, v.value.role); }},
    {"producer", false, [](In& in, Line<ProfileVersion>& v) { position(in, v.value.producer); }},
    {"readers", false, [](In& in, Line<ProfileVersion>& v) { positions(in, v.value.readers); }},
};

void formula(In& in, std::optional<Formula>& out) {
  out = parse_formula(in.word());
  if (!out) in.refuse(fmt::format("one of {}", fmt::join(formula_names, ", ")));
}

void clip(In& in, Clip& out) {
  const auto found = std::find(clip_names.begin(), clip_names.end(), in.word());
  if (found == clip_names.end()) return in.refuse(fmt::format("one of {}", fmt::join(clip_names, ", ")));
  out = static_cast<Clip>(found - clip_names.begin());
}

constexpr JsonField<ProfileSubstitute> substitute_fields[] = {
    {"reads", false, [](In& in, ProfileSubstitute& s) { indices(in, s.reads); }},
    {"makes", true, [](In& in, ProfileSubstitute& s) { indices(in, s.makes); }},
    {"through", false, [](In& in, ProfileSubstitute& s) { position(in, s.through); }},
    {"clip", false, [](In& in, ProfileSubstitute& s) { clip(in, s.clip); }},
    {"formula", false, [](In& in, ProfileSubstitute& s) { formula(in, s.formula); }},
    {"us", false, [](In& in, ProfileSubstitute& s) { time(in, s.us); }},
};

constexpr JsonField<Line<ProfileOp>> op_fields[] = {
    {"id", true, id},
    {"key", true, [](In& in, Line<ProfileOp>& op) { hexadecimal(in, op.value.key); }},
    {"function", true, [](In& in, Line<ProfileOp>& op) { index(in, op.value.function); }},
    {"kind", true, [](In& in, Line<ProfileOp>& op) { kind(in, op.value.kind); }},
    {"mode", false, [](In& in, Line<ProfileOp>& op) { in.text(op.value.mode); }},
    {"stream", false, [](In& in, Line<ProfileOp>& op) { stream(in, op.value.stream); }},
    {"us", true, [](In& in, Line<ProfileOp>& op) { time(in, op.value.us); }},
    {"gap_us", false, [](In& in, Line<ProfileOp>& op) { time(in, op.value.gap_us); }},
    {"outlier", false, [](In& in, Line<ProfileOp>& op) { op.value.outlier = in.boolean(); }},
    {"reads", false, [](In& in, Line<ProfileOp>& op) { indices(in, op.value.reads); }},
    {"writes", false, [](In& in, Line<ProfileOp>& op) { indices(in, op.value.writes); }},
    {"scratch", false, [](In& in, Line<ProfileOp>& op) { indices(in, op.value.scratch); }},
    {"operands", false, [](In& in, Line<ProfileOp>& op) { operands(in, op.value.operands); }},
    {"shape", false, [](In& in, Line<ProfileOp>& op) { shape(in, op.value.shape); }},
    {"filter", false, [](In& in, Line<ProfileOp>& op) { shape(in, op.value.filter); }},
    {"window", false, [](In& in, Line<ProfileOp>& op) { window(in, op.value.window); }},
    {"site", false,
     [](In& in, Line<ProfileOp>& op) { in.whole(op.value.site, most_index - 1), ++op.value.site; }},
    {"trials", false,
     [](In& in, Line<ProfileOp>& op) { in.whole(op.value.trials, most_index - 1), ++op.value.trials; }},
    {"algorithm", false,
     [](In& in, Line<ProfileOp>& op) { in.whole(op.value.algorithm, most_index - 1), ++op.value.algorithm; }},
    {"substitute", false,
     [](In& in, Line<ProfileOp>& op) { in.object(op.value.substitute.emplace(), substitute_fields); }},
};

constexpr JsonField<ProfileCopy> copy_fields[] = {
    {"before", true, [](In& in, ProfileCopy& c) { position(in, c.before); }},
    {"to", true, [](In& in, ProfileCopy& c) { direction(in, c.to_device); }},
    {"bytes", true, [](In& in, ProfileCopy& c) { bytes(in, c.bytes); }},
    {"stream", false, [](In& in, ProfileCopy& c) { stream(in, c.stream); }},
    {"us", true, [](In& in, ProfileCopy& c) { time(in, c.us); }},
    {"lead_us", false, [](In& in, ProfileCopy& c) { time(in, c.lead_us); }},
    {"version", false, [](In& in, ProfileCopy& c) { index(in, c.version.emplace()); }},
};

struct EventText {
  MemoryEvent event;
  int keys = 0;
};

constexpr JsonField<EventText> event_fields[] = {
    {"before", true, [](In& in, EventText& e) { position(in, e.event.before); }},
    {"allocate", false,
     [](In& in, EventText& e) { index(in, e.event.buffer), e.event.allocated = true, ++e.keys; }},
    {"free", false, [](In& in, EventText& e) { index(in, e.event.buffer), ++e.keys; }},
};

void events(In& in, std::vector<MemoryEvent>& out) {
  in.array([&] {
    EventText text;
    in.object(text, event_fields);
    if (text.keys != 1) in.refuse("an object with either allocate or free");
    out.push_back(text.event);
  });
}

constexpr JsonField<Line<Layer>> layer_fields[] = {
    {"id", true, id},
    {"name", true, [](In& in, Line<Layer>& l) { in.text(l.value.name); }},
    {"kind", true, [](In& in, Line<Layer>& l) { in.text(l.value.kind); }},
    {"inputs", false, [](In& in, Line<Layer>& l) { indices(in, l.value.inputs); }},
    {"output", true, [](In& in, Line<Layer>& l) { index(in, l.value.output); }},
    {"shape", false, [](In& in, Line<Layer>& l) { shape(in, l.value.shape); }},
    {"bytes", true, [](In& in, Line<Layer>& l) { bytes(in, l.value.bytes); }},
    {"window", false, [](In& in, Line<Layer>& l) { window(in, l.value.window); }},
    {"forward", false, [](In& in, Line<Layer>& l) { positions(in, l.value.forward); }},
    {"backward", false, [](In& in, Line<Layer>& l) { positions(in, l.value.backward); }},
    {"forward_us", false, [](In& in, Line<Layer>& l) { time(in, l.value.forward_us); }},
    {"backward_us", false, [](In& in, Line<Layer>& l) { time(in, l.value.backward_us); }},
};

constexpr JsonField<Line<Map>> map_fields[] = {
    {"id", true, id},
    {"name", true, [](In& in, Line<Map>& m) { in.text(m.value.name); }},
    {"bytes", true, [](In& in, Line<Map>& m) { bytes(in, m.value.bytes); }},
    {"kept", true, [](In& in, Line<Map>& m) { m.value.kept = in.boolean(); }},
    {"memory", true, [](In& in, Line<Map>& m) { index(in, m.value.memory); }},
    {"versions", false, [](In& in, Line<Map>& m) { indices(in, m.value.versions); }},
};

void edges(In& in, std::vector<LayerGraph::Edge>& out) {
  in.array([&] {
    std::vector<std::uint32_t> ends;
    indices(in, ends);
    if (ends.size() != 2) return in.refuse("a list of two layers");
    out.push_back({ends[0], ends[1]});
  });
}

constexpr JsonField<PhaseProfile> phase_fields[] = {
    {"id", true, [](In& in, PhaseProfile& p) { in.text(p.id); }},
    {"kind", true, [](In& in, PhaseProfile& p) { in.text(p.kind); }},
    {"seen", true, [](In& in, PhaseProfile& p) { count(in, p.seen); }},
    {"measured", true, [](In& in, PhaseProfile& p) { index(in, p.measured); }},
    {"iteration_us", true, [](In& in, PhaseProfile& p) { time(in, p.iteration_us); }},
    {"turn", false, [](In& in, PhaseProfile& p) { position(in, p.turn); }},
    {"layers", false, [](In& in, PhaseProfile& p) { lines(in, p.graph.layers, layer_fields); }},
    {"maps", false, [](In& in, PhaseProfile& p) { lines(in, p.graph.maps, map_fields); }},
    {"edges", false, [](In& in, PhaseProfile& p) { edges(in, p.graph.edges); }},
    {"functions", false,
     [](In& in, PhaseProfile& p) { in.array([&] { in.text(p.functions.emplace_back()); }); }},
    {"ops", true, [](In& in, PhaseProfile& p) { lines(in, p.ops, op_fields); }},
    {"versions", false, [](In& in, PhaseProfile& p) { lines(in, p.versions, version_fields); }},
    {"buffers", false, [](In& in, PhaseProfile& p) { lines(in, p.buffers, buffer_fields); }},
    {"copies", false,
     [](In& in, PhaseProfile& p) { in.array([&] { in.object(p.copies.emplace_back(), copy_fields); }); }},
    {"memory", false, [](In& in, PhaseProfile& p) { events(in, p.memory); }},
};

// ---- the whole

constexpr JsonField<LinkSample> link_fields[] = {
    {"to", true, [](In& in, LinkSample& s) { direction(in, s.to_device); }},
    {"bytes", true, [](In& in, LinkSample& s) { bytes(in, s.bytes); }},
    {"us", true, [](In& in, LinkSample& s) { time(in, s.us); }},
    {"both_ways", false, [](In& in, LinkSample& s) { s.both_ways = in.boolean(); }},
};

constexpr JsonField<MoveSample> move_fields[] = {
    {"handles", true, [](In& in, MoveSample& s) { in.whole(s.handles, most_count); }},
    {"bytes", true, [](In& in, MoveSample& s) { bytes(in, s.bytes); }},
    {"us", true, [](In& in, MoveSample& s) { time(in, s.us); }},
};

constexpr JsonField<Line<Module>> module_fields[] = {
    {"id", true, id},
    {"path", false, [](In& in, Line<Module>& m) { in.text(m.value.path); }},
    {"build_id", false, [](In& in, Line<Module>& m) { in.text(m.value.build_id); }},
};

// [module,offset]
void frame(In& in, CallFrame& out) {
  int numbers = 0;
  in.array([&] { ++numbers == 1 ? index(in, out.module) : in.whole(out.offset, most_count); });
  if (numbers != 2) in.refuse("a list of a module and an offset");
}

constexpr JsonField<Line<CallSite>> site_fields[] = {
    {"id", true, id},
    {"frames", false,
     [](In& in, Line<CallSite>& s) { in.array([&] { frame(in, s.value.frames.emplace_back()); }); }},
    {"python", false,
     [](In& in, Line<CallSite>& s) { in.array([&] { in.text(s.value.python.emplace_back()); }); }},
};

constexpr JsonField<Algorithm> algorithm_fields[] = {
    {"name", true, [](In& in, Algorithm& a) { in.text(a.name); }},
    {"us", true, [](In& in, Algorithm& a) { time(in, a.us); }},
    {"workspace", false, [](In& in, Algorithm& a) { bytes(in, a.workspace); }},
};

constexpr JsonField<Line<Trials>> trials_fields[] = {
    {"id", true, id},
    {"algorithms", true,
     [](In& in, Line<Trials>& t) {
       in.array([&] { in.object(t.value.algorithms.emplace_back(), algorithm_fields); });
     }},
};

constexpr JsonField<Line<ProfileRange>> range_fields[] = {
    {"id", true, id},
    {"bytes", true, [](In& in, Line<ProfileRange>& r) { some_bytes(in, r.value.bytes); }},
    {"in_use", false, [](In& in, Line<ProfileRange>& r) { r.value.in_use = in.boolean(); }},
};

constexpr JsonField<Profile> profile_fields[] = {
    {"schema", true, [](In& in, Profile& p) { in.whole(p.schema, most_position); }},
    {"device", true, [](In& in, Profile& p) { in.text(p.device); }},
    {"device_bytes", true, [](In& in, Profile& p) { bytes(in, p.device_bytes); }},
    {"cap_bytes", true, [](In& in, Profile& p) { bytes(in, p.cap_bytes); }},
    {"host_budget_bytes", true, [](In& in, Profile& p) { bytes(in, p.host_budget_bytes); }},
    {"need_bytes", true, [](In& in, Profile& p) { bytes(in, p.need_bytes); }},
    {"outside_bytes", false, [](In& in, Profile& p) { bytes(in, p.outside_bytes); }},
    {"policy", true, [](In& in, Profile& p) { in.text(p.policy); }},
    {"timer", false, [](In& in, Profile& p) { in.text(p.timer); }},
    {"iterations", true, [](In& in, Profile& p) { count(in, p.iterations); }},
    {"ops", true, [](In& in, Profile& p) { count(in, p.ops); }},
    {"link", false,
     [](In& in, Profile& p) { in.array([&] { in.object(p.link.emplace_back(), link_fields); }); }},
    {"moves", false,
     [](In& in, Profile& p) { in.array([&] { in.object(p.moves.emplace_back(), move_fields); }); }},
    {"launch_us", false, [](In& in, Profile& p) { time(in, p.launch_us); }},
    {"modules", false, [](In& in, Profile& p) { lines(in, p.modules, module_fields); }},
    {"sites", false, [](In& in, Profile& p) { lines(in, p.sites, site_fields); }},
    {"trials", false, [](In& in, Profile& p) { lines(in, p.trials, trials_fields); }},
    {"ranges", false, [](In& in, Profile& p) { lines(in, p.ranges, range_fields); }},
    {"phases", true,
     [](In& in, Profile& p) { in.array([&] { in.object(p.phases.emplace_back(), phase_fields); }); }},
};

Error error(std::string message) {
  return {ErrorCode::invalid_argument, std::move(message)};
}

}  // namespace

Result<Profile> profile_from_json(std::string_view text) {
  Profile profile;
  // Another version's keys would be reported one by one as wrong.
  if (JsonCursor first(text); first.seek("schema")) {
    const std::uint64_t schema = first.whole(most_position);
    if (first.good() && schema != static_cast<std::uint64_t>(profile.schema))
      return error(fmt::format("schema is {}; this pooch reads {}", schema, profile.schema));
  }
  JsonCursor in(text);
  in.object(profile, profile_fields);
  in.finish();
  if (!in.good()) return error(in.error());
  if (const Status consistent = check(profile); !consistent) return consistent.error();
  return profile;
}

}  // namespace pooch

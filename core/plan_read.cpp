#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/json_cursor.h"
#include "core/plan.h"
#include "core/profile_check.h"

namespace pooch {
namespace {

using In = JsonCursor;
constexpr std::uint64_t most_index = std::numeric_limits<std::uint32_t>::max();
constexpr std::int32_t most_position = std::numeric_limits<std::int32_t>::max();
constexpr double most_ms = most_us / 1e3;

// ---- values

void bytes(In& in, std::uint64_t& out) {
  in.whole(out, most_bytes);
}
void time(In& in, double& out) {
  out = in.real(most_ms);
}

// One of the names that values from 0 to `last` have.
template <class Enum>
void named(In& in, Enum& out, Enum last) {
  const std::string_view text = in.word();
  std::string accepted = "one of";
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    out = static_cast<Enum>(i);
    if (name(out) == text) return;
    accepted += fmt::format("{} {}", i == 0 ? "" : ",", name(out));
  }
  in.refuse(accepted);
}
void map_class(In& in, MapClass& out) {
  named(in, out, MapClass::recompute);
}

// A number as it is written, without leading zeros.
template <class Integer>
bool parse_whole(std::string_view text, Integer& out) {
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, out);
  return problem == std::errc{} && stop == end && out >= 0 && (text.size() == 1 || text[0] != '0');
}

// Whatever is behind the first space goes to `rest`.
std::string_view first_word(std::string_view text, std::string_view& rest) {
  const std::size_t space = text.find(' ');
  rest = space == text.npos ? "" : text.substr(space + 1);
  return text.substr(0, space);
}

bool parse_us(std::string_view text, double& out) {
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, out, std::chars_format::fixed);
  return problem == std::errc{} && stop == end && out >= 0 && out <= most_us;
}

// "at 1200.5 for 340.0", behind an action that takes time.
bool parse_time(std::string_view text, PlanAction& out) {
  std::string_view rest;
  out.time.emplace();
  return out.kind != PlanAction::Kind::drop && first_word(text, rest) == "at" &&
         parse_us(first_word(rest, rest), out.time->at_us) && first_word(rest, rest) == "for" &&
         parse_us(rest, out.time->takes_us);
}

// "evict 17", "prefetch 17 134217728", "replay 17 one_fma", "evict 17 at 1200.5 for 340.0"
void action(In& in, std::string_view text, PlanAction& out) {
  std::string_view rest;
  const std::string_view kind = first_word(text, rest), subject = first_word(rest, rest);
  for (int i = 0; i <= static_cast<int>(PlanAction::Kind::replay); ++i) {
    out.kind = static_cast<PlanAction::Kind>(i);
    if (name(out.kind) != kind || !parse_whole(subject, out.subject)) continue;
    std::string_view behind;
    const std::string_view how = first_word(rest, behind);
    const bool part = out.kind == PlanAction::Kind::prefetch && parse_whole(how, out.up_to) && out.up_to > 0;
    if (!part) out.up_to = 0;
    if (out.kind == PlanAction::Kind::replay) out.formula = parse_formula(how);
    if (part || out.formula) rest = behind;
    if (rest.empty() ? !text.ends_with(' ') : parse_time(rest, out)) return;
  }
  in.refuse(
      "evict, prefetch, drop or replay and a number; then a part's bytes, a formula's name or \"at 1.5 for "
      "2.0\"");
}

// "start at 1200.5"
bool parse_start(std::string_view text, double& us) {
  std::string_view rest;
  return first_word(text, rest) == "start" && first_word(rest, rest) == "at" && parse_us(rest, us);
}

// By position: {"44":["evict 17"],…}. `starts_us`: an op's start may be among them.
void actions(In& in, Plan::Actions& out, std::map<std::int32_t, double>* starts_us) {
  in.members([&](std::string_view key) {
    std::int32_t position = 0;
    if (!parse_whole(key, position))
      return in.reject(fmt::format("is no position: a whole number up to {}", most_position));
    if (out.contains(position) || (starts_us != nullptr && starts_us->contains(position)))
      return in.reject("appears twice");
    std::vector<PlanAction> list;
    bool any = false;
    in.array([&] {
      const std::string_view text = in.word();
      double us = 0;
      any = true;
      if (starts_us == nullptr || !parse_start(text, us)) return action(in, text, list.emplace_back());
      if (!starts_us->emplace(position, us).second) in.refuse("one start");
    });
    if (!any) return in.refuse("a list of at least one action");
    if (!list.empty()) out.emplace(position, std::move(list));
  });
}

// ---- the lines

// With what a class does not have.
struct MapText {
  PlanMap map;
  bool moved = false, by = false, alternative = false, brief = false, across = false, leaves_again = false;
};

constexpr JsonField<MapText> map_fields[] = {
    {"map", true, [](In& in, MapText& m) { in.whole(m.map.map, most_index); }},
    {"name", true, [](In& in, MapText& m) { in.text(m.map.name); }},
    {"buffer", true, [](In& in, MapText& m) { in.whole(m.map.buffer, most_index); }},
    {"bytes", true, [](In& in, MapText& m) { bytes(in, m.map.bytes); }},
    {"class", true, [](In& in, MapText& m) { map_class(in, m.map.of); }},
    {"moved", false, [](In& in, MapText& m) { bytes(in, m.map.moved), m.moved = true; }},
    {"by", false,
     [](In& in, MapText& m) {
       in.array([&] { in.whole(m.map.by.emplace_back(), most_position); }), m.by = true;
     }},
    {"brief", false, [](In& in, MapText& m) { m.map.brief = in.boolean(), m.brief = true; }},
    {"across", false, [](In& in, MapText& m) { m.map.across = in.boolean(), m.across = true; }},
    {"leaves_again", false,
     [](In& in, MapText& m) { m.map.leaves_again = in.boolean(), m.leaves_again = true; }},
    {"why", true, [](In& in, MapText& m) { in.text(m.map.why); }},
    {"cost_ms", true, [](In& in, MapText& m) { time(in, m.map.cost_ms); }},
    {"alternative", false,
     [](In& in, MapText& m) { map_class(in, m.map.alternative), m.alternative = true; }},
    {"alternative_cost_ms", false, [](In& in, MapText& m) { time(in, m.map.alternative_cost_ms.emplace()); }},
};

void map(In& in, PlanMap& out) {
  MapText text;
  in.object(text, map_fields);
  if (text.moved != (text.map.of == MapClass::swap)) in.refuse("a map with moved, if it is of class swap");
  if (text.by != (text.map.of == MapClass::recompute))
    in.refuse("a map with by, if it is of class recompute");
  if (text.brief && text.map.of != MapClass::recompute) in.refuse("a map with brief only of class recompute");
  if (text.across && text.map.of != MapClass::swap) in.refuse("a map with across only of class swap");
  if (text.leaves_again && (text.map.of != MapClass::swap || text.map.across))
    in.refuse("a map with leaves_again only of class swap, and not across");
  if (text.alternative != text.map.alternative_cost_ms.has_value())
    in.refuse("a map with both alternative and alternative_cost_ms, or neither");
  out = std::move(text.map);
}

constexpr JsonField<PlanAlgorithm> algorithm_fields[] = {
    {"op", true, [](In& in, PlanAlgorithm& a) { in.whole(a.op, most_position); }},
    {"name", true, [](In& in, PlanAlgorithm& a) { in.text(a.name); }},
    {"takes", true, [](In& in, PlanAlgorithm& a) { in.text(a.takes); }},
    {"instead_of", true, [](In& in, PlanAlgorithm& a) { in.text(a.instead_of); }},
    {"ms", true, [](In& in, PlanAlgorithm& a) { time(in, a.ms); }},
    {"instead_of_ms", true, [](In& in, PlanAlgorithm& a) { time(in, a.instead_of_ms); }},
    {"workspace", true, [](In& in, PlanAlgorithm& a) { bytes(in, a.workspace); }},
};

// ---- the layout

struct ItemText {
  LayoutItem item;
  std::vector<std::vector<std::uint32_t>> frames;  // by stay
};
struct StayText {
  LayoutSpan span;
  std::vector<std::uint32_t> frames;
};

constexpr JsonField<StayText> stay_fields[] = {
    {"from", true, [](In& in, StayText& s) { in.whole(s.span.from, most_position); }},
    {"to", true, [](In& in, StayText& s) { in.whole(s.span.to, most_position - 1); }},
    {"crosses", false, [](In& in, StayText& s) { s.span.crosses = in.boolean(); }},
    {"frames", true,
     [](In& in, StayText& s) { in.array([&] { in.whole(s.frames.emplace_back(), most_index); }); }},
};

void stays(In& in, ItemText& out) {
  in.array([&] {
    StayText text;
    in.object(text, stay_fields);
    out.item.held.push_back(text.span);
    out.frames.push_back(std::move(text.frames));
  });
}

constexpr JsonField<ItemText> item_fields[] = {
    {"bytes", true, [](In& in, ItemText& i) { bytes(in, i.item.bytes); }},
    {"stays", true, stays},
};

void items(In& in, PlanLayout& out) {
  in.array([&] {
    ItemText text;
    in.object(text, item_fields);
    out.items.push_back(std::move(text.item));
    out.layout.frames_of.push_back(std::move(text.frames));
  });
}

constexpr JsonField<PlanLayout> layout_fields[] = {
    {"phases", true, [](In& in, PlanLayout& l) { in.array([&] { in.text(l.phases.emplace_back()); }); }},
    {"at_once", true, [](In& in, PlanLayout& l) { bytes(in, l.at_once); }},
    {"wait_us", true, [](In& in, PlanLayout& l) { l.layout.wait_us = in.real(most_us); }},
    {"moves", true, [](In& in, PlanLayout& l) { in.whole(l.layout.moves, most_index); }},
    {"frames", true,
     [](In& in, PlanLayout& l) { in.array([&] { bytes(in, l.layout.frames.emplace_back()); }); }},
    {"items", true, items},
};

// ---- the whole

constexpr JsonField<Plan> plan_fields[] = {
    // What a plan in the cache was made for is its own.
    {"made_for", false, [](In& in, Plan& /*plan*/) { in.skip(); }, true},
    {"schema", true, [](In& in, Plan& p) { in.whole(p.schema, most_position); }},
    {"phase", true, [](In& in, Plan& p) { in.text(p.phase); }},
    {"device", true, [](In& in, Plan& p) { in.text(p.device); }},
    {"policy", true, [](In& in, Plan& p) { in.text(p.policy); }},
    {"structure", false, [](In& in, Plan& p) { in.text(p.structure); }},
    {"cap", true, [](In& in, Plan& p) { bytes(in, p.cap); }},
    {"seed", true, [](In& in, Plan& p) { in.whole(p.seed, std::numeric_limits<std::uint64_t>::max()); }},
    {"in_core_ms", true, [](In& in, Plan& p) { time(in, p.in_core_ms); }},
    {"predicted_ms", true, [](In& in, Plan& p) { time(in, p.predicted_ms); }},
    {"bound_ms", false,
     [](In& in, Plan& p) {
       if (!in.null()) time(in, p.bound_ms.emplace());
     }},
    {"peak", true, [](In& in, Plan& p) { bytes(in, p.peak); }},
    {"host_bytes", true, [](In& in, Plan& p) { bytes(in, p.host_bytes); }},
    {"maps", true, [](In& in, Plan& p) { in.array([&] { map(in, p.maps.emplace_back()); }); }},
    {"algorithms", false,
     [](In& in, Plan& p) { in.array([&] { in.object(p.algorithms.emplace_back(), algorithm_fields); }); }},
    {"layout", false, [](In& in, Plan& p) { in.object(p.layout.emplace(), layout_fields); }},
    {"before", true, [](In& in, Plan& p) { actions(in, p.before, &p.starts_us); }},
    {"after", true, [](In& in, Plan& p) { actions(in, p.after, nullptr); }},
};

Error error(const std::string& message) {
  return {ErrorCode::invalid_argument, "plan: " + message};
}

}  // namespace

Result<Plan> plan_from_json(std::string_view text) {
  Plan plan;
  // Another version's keys would be reported one by one as wrong.
  if (JsonCursor first(text); first.seek("schema")) {
    const std::uint64_t schema = first.whole(most_position);
    if (first.good() && schema != static_cast<std::uint64_t>(plan.schema))
      return error(fmt::format("/schema is {}: this pooch reads {}", schema, plan.schema));
  }
  JsonCursor in(text);
  in.object(plan, plan_fields);
  in.finish();
  if (!in.good()) return error(in.error());
  if (const Status consistent = check(plan); !consistent) return consistent.error();
  return plan;
}

}  // namespace pooch

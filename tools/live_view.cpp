#include "live_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/bytes.h"
#include "core/log.h"
#include "core/utf8.h"
#include "text_table.h"

namespace pooch::tools {
namespace {

enum class Colour { plain, bold, faint, red, green, yellow, blue };

std::string painted(std::string_view text, Colour colour, const LiveStyle& style) {
  constexpr const char* codes[] = {"0", "1", "2", "31", "32", "33", "34"};
  if (!style.colour || colour == Colour::plain) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<int>(colour)], text);
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & '\xc0') != '\x80'; }));
}

// At the end of a character.
std::string cut(std::string_view text, std::size_t width) {
  if (columns(text) <= width) return std::string(text);
  std::string shown;
  for (std::size_t used = 0; used + 1 < width && !text.empty(); ++used) {
    const std::size_t bytes = std::max<std::size_t>(1, utf8_character(text));
    shown += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return shown + "~";
}

std::string bar(std::uint64_t part, std::uint64_t whole, std::size_t width, const LiveStyle& style) {
  const double share = whole == 0 ? 0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
  const auto full = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
  std::string text;
  for (std::size_t i = 0; i < width; ++i) {
    if (style.unicode) {
      text += i < full ? "\u2588" : "\u2591";
    } else {
      text += i < full ? '#' : '.';
    }
  }
  return text;
}

Colour colour_of(const LiveView& view) {
  if (view.ended) return Colour::red;
  switch (view.live.state) {
    case LiveState::streaming:
    case LiveState::settling:
      return Colour::yellow;
    case LiveState::planned:
      return Colour::green;
    default:
      return Colour::blue;
  }
}

std::string state_of(const LiveView& view) {
  return view.ended ? "ended" : std::string(name(view.live.state));
}

// An iteration's, on the device where a plan was timed there. 0: not known yet.
double time_of(const Live& live) {
  const bool by_plan = live.state == LiveState::planned && live.planned_ms > 0;
  return by_plan ? live.planned_ms : live.iteration_ms;
}

std::optional<double> over_in_core(const Live& live) {
  if (live.state != LiveState::planned || live.in_core_ms <= 0 || live.planned_ms <= 0) return {};
  return (live.planned_ms / live.in_core_ms - 1) * 100;
}

std::string pace(const Live& live) {
  std::string text = fmt::format("iteration {} ({} planned)", live.iterations, live.planned_iterations);
  if (time_of(live) > 0) text += fmt::format(", {:.1f} ms", time_of(live));
  if (const auto over = over_in_core(live)) text += fmt::format(", {:+.1f} % over in-core", *over);
  if (live.predicted_ms > 0) text += fmt::format("; predicted {:.1f} ms", live.predicted_ms);
  return text;
}

double gigabytes_per_s(double bytes, double ms) {
  return ms > 0 ? bytes / ms / 1e6 : 0;
}

std::string link(const Live& live) {
  return fmt::format("out {:.1f} GB/s, in {:.1f} GB/s; {} and {} so far",
                     gigabytes_per_s(live.out_per_iteration, time_of(live)),
                     gigabytes_per_s(live.in_per_iteration, time_of(live)), format_bytes(live.bytes_out),
                     format_bytes(live.bytes_in));
}

std::string replays(const Live& live) {
  std::string text = fmt::format("{} replays", live.replays);
  if (live.verified > 0)
    text +=
        fmt::format(", {} results compared, {}", live.verified,
                    live.mismatches == 0 ? "all equal" : fmt::format("{} of them differed", live.mismatches));
  if (live.unforeseen_ops > 0) text += fmt::format("; {} ops of unknown effect", live.unforeseen_ops);
  return text;
}

std::string dearest(const Live& live) {
  std::string text;
  for (const Live::Map& map : live.dearest)
    if (map.cost_ms > 0)
      text += fmt::format("{}{} ({} {:.2f} ms)", text.empty() ? "" : ", ", map.name.view(), name(map.of),
                          map.cost_ms);
  return text;
}

constexpr std::size_t label_width = 9;

}  // namespace

std::string live_text(const LiveView& view, const LiveStyle& style) {
  const Live& live = view.live;
  std::string text;
  const auto line = [&](std::string_view label, std::string_view rest, Colour colour = Colour::plain) {
    const std::size_t room = style.width > label_width + 2 ? style.width - label_width - 2 : 1;
    text += fmt::format("  {}{}\n", painted(fmt::format("{:<{}}", label, label_width), Colour::faint, style),
                        painted(cut(rest, room), colour, style));
  };
  const std::string state = fmt::format("{}, {}", state_of(view), live.policy.view());
  std::string who = fmt::format("{} ({})", view.program.empty() ? "process" : view.program, live.process);
  if (live.ranks > 1) who += fmt::format(", rank {}", live.rank);
  who += fmt::format(" on {}, device {}", live.gpu.view(), live.device);
  const std::size_t room = style.width > columns(state) + 2 ? style.width - columns(state) - 2 : 1;
  who = cut(log::printable(who), room);
  text += fmt::format("{}{:{}}{}\n", painted(who, Colour::bold, style), "", room - columns(who) + 2,
                      painted(state, colour_of(view), style));
  line("time", pace(live));
  const std::size_t bar_width = style.width / 2 > 30 ? 30 : style.width / 4;
  const auto memory = [&](std::string_view label, std::uint64_t part, std::uint64_t whole,
                          const std::string& more) {
    line(label, fmt::format("{} {} of {}{}", bar(part, whole, bar_width, style), format_bytes(part),
                            format_bytes(whole), more));
  };
  memory("device", live.used, live.cap, fmt::format(", need {}", format_bytes(live.need)));
  memory("host", live.host_used, live.host_budget, "");
  if (live.bytes_out + live.bytes_in > 0) line("link", link(live));
  if (const std::string maps = dearest(live); !maps.empty()) line("dearest", log::printable(maps));
  if (live.replays + live.unforeseen_ops > 0)
    line("replays", replays(live), live.mismatches > 0 ? Colour::red : Colour::plain);
  if (!live.warning.view().empty()) line("warning", log::printable(live.warning.view()), Colour::yellow);
  return text;
}

std::string live_table(const std::vector<LiveView>& views, const LiveStyle& style) {
  std::vector<std::vector<std::string>> rows{{"process", "rank", "device", "state", "iteration", "ms", "over",
                                              "device memory", "host", "out+in GB/s"}};
  for (const LiveView& view : views) {
    const Live& live = view.live;
    const auto over = over_in_core(live);
    rows.push_back(
        {std::to_string(live.process), live.ranks > 1 ? std::to_string(live.rank) : "-",
         std::to_string(live.device), state_of(view), std::to_string(live.iterations),
         fmt::format("{:.1f}", time_of(live)), over ? fmt::format("{:+.1f} %", *over) : "-",
         fmt::format("{:.0f} % of {}", live.cap == 0 ? 0 : 100.0 * double(live.used) / double(live.cap),
                     format_bytes(live.cap)),
         format_bytes(live.host_used),
         fmt::format("{:.1f}",
                     gigabytes_per_s(live.out_per_iteration + live.in_per_iteration, time_of(live)))});
  }
  const std::string table = text_table(rows, {3});
  std::string text;
  for (std::size_t at = 0; at < table.size();) {
    const std::size_t end = std::min(table.find('\n', at), table.size());
    text += cut(std::string_view(table).substr(at, end - at), style.width) + "\n";
    at = end + 1;
  }
  return text;
}

std::string live_json(const std::vector<LiveView>& views) {
  nlohmann::json all = nlohmann::json::array();
  for (const LiveView& view : views) {
    const Live& live = view.live;
    nlohmann::json maps = nlohmann::json::array();
    for (const Live::Map& map : live.dearest)
      if (map.cost_ms > 0)
        maps.push_back({{"name", map.name.view()}, {"of", name(map.of)}, {"cost_ms", map.cost_ms}});
    nlohmann::json one{{"process", live.process},
                       {"program", view.program},
                       {"device", live.device},
                       {"gpu", live.gpu.view()},
                       {"rank", live.rank},
                       {"ranks", live.ranks},
                       {"state", state_of(view)},
                       {"policy", live.policy.view()},
                       {"phase", live.phase.view()},
                       {"seconds", live.written_s - live.began_s},
                       {"iterations", live.iterations},
                       {"planned_iterations", live.planned_iterations},
                       {"iteration_ms", time_of(live)},
                       {"predicted_ms", live.predicted_ms},
                       {"in_core_ms", live.in_core_ms},
                       {"cap_bytes", live.cap},
                       {"used_bytes", live.used},
                       {"peak_bytes", live.peak},
                       {"need_bytes", live.need},
                       {"host_budget_bytes", live.host_budget},
                       {"host_bytes", live.host_used},
                       {"bytes_out", live.bytes_out},
                       {"bytes_in", live.bytes_in},
                       {"evictions", live.evictions},
                       {"host_waits", live.host_waits},
                       {"replays", live.replays},
                       {"verified", live.verified},
                       {"mismatches", live.mismatches},
                       {"unforeseen_ops", live.unforeseen_ops},
                       {"dearest", maps},
                       {"warning", live.warning.view()}};
    all.push_back(std::move(one));
  }
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace pooch::tools

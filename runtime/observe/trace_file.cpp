#include "runtime/observe/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "runtime/observe/json_text.h"

namespace pooch::runtime {
namespace {

constexpr std::array<std::string_view, 6> row_names{"iterations", "compute",   "stalls",
                                                    "replays",    "copies in", "copies out"};
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

template <class Event>
bool timed(const Event& event) {
  return event.end_us >= event.start_us;
}

bool computes(TraceTrack track) {
  return track == TraceTrack::compute || track == TraceTrack::replays;
}

}  // namespace

std::uint32_t TraceFile::row(Row kind, std::uint16_t stream) {
  return rows_.try_emplace({kind, stream}, static_cast<std::uint32_t>(rows_.size() + 1)).first->second;
}

std::uint32_t TraceFile::row_of(const TraceEvent& event) {
  constexpr std::array<Row, 4> rows{Row::compute, Row::replays, Row::copies_out, Row::copies_in};
  return row(rows[static_cast<std::size_t>(event.track)], event.stream);
}

// Moves the first start to 0, and parts slices of one row that overlap: work of a stream runs in its order,
// but a timer may be inexact, and a library may use streams of its own.
void TraceFile::place_slices() {
  std::vector<TraceEvent*> slices;
  for (TraceEvent& event : events_) {
    if (event.kind == TraceEvent::Kind::slice && timed(event)) slices.push_back(&event);
  }
  std::stable_sort(slices.begin(), slices.end(),
                   [](const auto* a, const auto* b) { return a->start_us < b->start_us; });
  const double zero_us = slices.empty() ? 0 : slices.front()->start_us;
  std::map<std::uint32_t, double> free_from;  // by row
  for (TraceEvent* const event : slices) {
    double& from = free_from[row_of(*event)];
    event->start_us = std::max(event->start_us - zero_us, from);
    event->end_us = from = std::max(event->end_us - zero_us, event->start_us);
  }
}

void TraceFile::add_slices() {
  for (const TraceEvent& event : events_) {
    if (event.kind != TraceEvent::Kind::slice || !timed(event)) continue;
    items_.push_back({Item::Kind::slice, row_of(event), event.name, event.position, event.start_us,
                      event.end_us, event.bytes});
  }
}

// A stream that was made to wait stands still from the end of its work before to the begin of what follows.
void TraceFile::add_stalls() {
  std::map<std::uint16_t, double> idle_from;  // by stream
  for (const TraceEvent& event : events_) {
    if (event.kind != TraceEvent::Kind::slice || !timed(event) || !computes(event.track)) continue;
    const auto [before, is_first] = idle_from.try_emplace(event.stream, event.end_us);
    if (!is_first && event.cause != 0 && event.start_us > before->second) {
      items_.push_back({Item::Kind::slice, row(Row::stalls, event.stream), event.cause, event.position,
                        before->second, event.start_us});
    }
    before->second = std::max(before->second, event.end_us);
  }
}

void TraceFile::add_iterations() {
  std::optional<Item> open;
  double done_us = 0;  // they follow each other, whatever their streams do
  const auto close = [&] {
    if (open && open->end_us >= open->at_us) items_.push_back(*open);
  };
  for (const TraceEvent& event : events_) {
    if (event.kind == TraceEvent::Kind::iteration) {
      close();
      open = Item{Item::Kind::slice, row(Row::iterations, 0), event.name, -1, 0, -1};
      open->mode = event.cause;
    } else if (open && event.kind == TraceEvent::Kind::slice && timed(event) && computes(event.track)) {
      if (open->end_us < open->at_us) open->at_us = std::max(event.start_us, done_us);
      open->end_us = done_us = std::max({event.end_us, done_us, open->at_us});
    }
  }
  close();
}

void TraceFile::add_marks() {
  double now_us = 0;
  for (const TraceEvent& event : events_) {
    if (event.kind == TraceEvent::Kind::slice && timed(event) && computes(event.track)) {
      now_us = std::max(now_us, event.start_us);
    } else if (event.kind == TraceEvent::Kind::instant) {
      items_.push_back({Item::Kind::instant, row(Row::iterations, 0), event.name, -1, now_us});
    } else if (event.kind == TraceEvent::Kind::memory) {
      items_.push_back({Item::Kind::memory, 0, 0, -1, now_us, 0, event.bytes});
    }
  }
}

// An arrow's stops lie in the middle of their slices, so that viewers find them there, and run with the time.
void TraceFile::add_arrows() {
  std::map<std::uint64_t, std::vector<Item>> arrows;
  for (const TraceEvent& event : events_) {
    if (event.flow == 0 || !timed(event)) continue;
    arrows[event.flow].push_back(
        {Item::Kind::arrow_step, row_of(event), 0, -1, (event.start_us + event.end_us) / 2, 0, event.flow});
  }
  for (auto& [number, stops] : arrows) {
    if (stops.size() < 2) continue;
    std::stable_sort(stops.begin(), stops.end(),
                     [](const Item& a, const Item& b) { return a.at_us < b.at_us; });
    stops.front().kind = Item::Kind::arrow_begin;
    stops.back().kind = Item::Kind::arrow_end;
    items_.insert(items_.end(), stops.begin(), stops.end());
  }
}

void TraceFile::put_rows(std::string& out) const {
  out += R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"pooch"}})";
  int order = 0;
  for (const auto& [which, number] : rows_) {
    const auto& [kind, stream] = which;
    const std::string stream_name = kind == Row::iterations ? "" : fmt::format(", stream {}", stream);
    fmt::format_to(std::back_inserter(out),
                   ",\n"
                   R"({{"ph":"M","pid":1,"tid":{0},"name":"thread_name","args":{{"name":"{1}{2}"}}}},)"
                   "\n"
                   R"({{"ph":"M","pid":1,"tid":{0},"name":"thread_sort_index","args":{{"sort_index":{3}}}}})",
                   number, row_names[static_cast<std::size_t>(kind)], stream_name, order++);
  }
}

void TraceFile::put(const Item& item, std::string& out) const {
  const auto to = std::back_inserter(out);
  const std::string name = json_quoted(names_[item.name]);
  switch (item.kind) {
    case Item::Kind::slice:
      fmt::format_to(to, R"({{"ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{},"args":{{)",
                     item.row, item.at_us, item.end_us - item.at_us, name);
      if (item.position >= 0) fmt::format_to(to, R"("position":{})", item.position);
      if (item.mode != 0) fmt::format_to(to, R"("mode":{})", json_quoted(names_[item.mode]));
      if (item.value > 0) fmt::format_to(to, R"({}"bytes":{})", item.position >= 0 ? "," : "", item.value);
      out += "}}";
      break;
    case Item::Kind::arrow_begin:
    case Item::Kind::arrow_step:
    case Item::Kind::arrow_end: {
      // Viewers join what has equal category, name and id.
      const bool end = item.kind == Item::Kind::arrow_end;
      const char phase = item.kind == Item::Kind::arrow_begin ? 's' : end ? 'f' : 't';
      fmt::format_to(to, R"({{"ph":"{}","pid":1,"tid":{},"ts":{:.3f},"cat":"map","name":"moved","id":{}{}}})",
                     phase, item.row, item.at_us, item.value, end ? R"(,"bp":"e")" : "");
      break;
    }
    case Item::Kind::instant:
      fmt::format_to(to, R"({{"ph":"i","s":"p","pid":1,"tid":{},"ts":{:.3f},"name":{}}})", item.row,
                     item.at_us, name);
      break;
    case Item::Kind::memory:
      // Stacked, the two reach up to the cap.
      fmt::format_to(to,
                     R"({{"ph":"C","pid":1,"ts":{:.3f},"name":"device memory",)"
                     R"("args":{{"used":{},"free up to the cap":{}}}}})",
                     item.at_us, item.value, cap_ - std::min(cap_, item.value));
      break;
  }
}

Status TraceFile::write(const std::string& path, const OutputOptions& options, FunctionRef<bool()> wanted) {
  place_slices();
  add_slices();
  add_stalls();
  add_iterations();
  add_marks();
  add_arrows();
  std::stable_sort(items_.begin(), items_.end(),
                   [](const Item& a, const Item& b) { return a.at_us < b.at_us; });
  const auto named = [&](const Error& why) {
    return Error{why.code, fmt::format("{}: {}", path, why.message)};
  };
  auto file = OutputFile::open(path, options);
  if (!file) return named(file.error());
  std::string piece = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  put_rows(piece);
  for (const Item& item : items_) {
    piece += ",\n";
    put(item, piece);
    if (piece.size() < piece_bytes) continue;
    if (!wanted()) return Done{};
    file->append(piece);
    piece.clear();
  }
  file->append(piece + "\n]}\n");
  if (!wanted()) return Done{};
  const Status written = file->commit();
  if (!written) return named(written.error());
  return written;
}

}  // namespace pooch::runtime

// The timeline of POOCH_TRACE: what ran on the device and when, as Chrome trace events (docs/trace.md), for
// ui.perfetto.dev and chrome://tracing.
//
//   begin(slice) ── the launch or copy ── end(number) ── … ── write(path)
//
// All times are the device's, by an OpTimer of the trace's own, so nothing waits and nothing is written
// before the end. The session's mutex guards it. Where no timeline is wanted there is no Trace.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cupti/op_timer.h"

namespace pooch::runtime {

enum class TraceTrack : std::uint8_t { compute, replays, copies_out, copies_in };

// One piece of work in a stream.
struct TraceSlice {
  TraceTrack track = TraceTrack::compute;
  std::string_view name;  // of the function, or of the map that is copied
  StreamHandle stream{};
  std::int32_t position = -1;  // of the op in its iteration; -1: none
  std::uint64_t bytes = 0;     // copied
  std::uint64_t flow = 0;      // the arrow that it is part of; 0: of none
  std::string_view cause;      // what its stream was made to wait for; empty: nothing
};

// What the timeline keeps of one: names and streams are indices into its lists.
struct TraceEvent {
  enum class Kind : std::uint8_t { slice, iteration, instant, memory };
  Kind kind;
  TraceTrack track = TraceTrack::compute;
  std::uint16_t stream = 0;
  std::uint32_t name = 0;
  std::uint32_t cause = 0;  // 0: none
  std::int32_t position = -1;
  std::uint64_t bytes = 0, flow = 0;
  double start_us = 0, end_us = -1;  // end before start: not known
};

class Trace {
 public:
  using Number = std::uint64_t;
  static constexpr Number none = std::numeric_limits<Number>::max();
  static constexpr std::size_t most = 1'000'000;  // events; then no more are kept, with one warning

  // `cap`: device bytes that the memory counter is set against.
  Trace(std::unique_ptr<cupti::OpTimer> timer, std::uint64_t cap, std::size_t limit = most)
      : timer_(std::move(timer)), cap_(cap), limit_(limit) {}

  // Brackets the submission of one piece of work, as OpTimer has it: begin() after everything that it waits
  // for was put into the stream. One at a time per thread.
  Number begin(const TraceSlice& slice);
  void end(Number number);  // `none` is ignored
  // For the arrow eviction → prefetch → use of one piece of content.
  std::uint64_t new_flow() { return ++flows_; }
  // The next compute slice is the first of an iteration.
  void iteration(std::string_view phase);
  // The iteration's plan was followed to its last op.
  void iteration_planned();
  // Both are shown at the begin of the latest compute or replay slice: the host runs ahead of the device.
  void instant(std::string_view name);
  void memory(std::uint64_t bytes);  // device memory in use by now

  // Ends the tracing. Work that still runs is not in the file: to have it all, wait for it first. Error:
  // invalid_argument with file and reason.
  Status write(const std::string& path);

 private:
  using Event = TraceEvent;
  friend class TraceFile;

  bool room();
  std::uint32_t name_of(std::string_view text);
  std::uint16_t stream_of(StreamHandle stream);
  void collect(bool last);
  void failed(const Error& why);

  std::unique_ptr<cupti::OpTimer> timer_;
  const std::uint64_t cap_;
  const std::size_t limit_;
  bool stopped_ = false;
  std::vector<Event> events_;  // the timer's op numbers are indices
  std::vector<std::string> names_{""};
  std::unordered_map<std::string, std::uint32_t> name_index_{{"", 0}};
  std::vector<StreamHandle> streams_;  // in order of first use
  std::uint64_t flows_ = 0;
  Number iteration_ = none;  // the latest
  std::uint32_t since_collected_ = 0;
  std::vector<cupti::OpTime> times_;  // reused storage
};

}  // namespace pooch::runtime

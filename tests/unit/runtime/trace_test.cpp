// Timelines, read back with another JSON library, and held against what trace_file.h promises.
#include "runtime/observe/trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "core/log.h"
#include "runtime/observe/trace_file.h"
#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

constexpr StreamHandle program{10}, side{11}, out{12}, in{13};

// Gives the times that the test sets.
class GivenTimes : public cupti::OpTimer {
 public:
  std::map<std::uint64_t, std::pair<double, double>> times;  // by op
  std::uint64_t fails_at = ~0ull;
  bool stopped = false;
  std::size_t collected = 0;

  std::string_view source() const override { return "given"; }
  Status begin(std::uint64_t op, StreamHandle) override {
    if (op == fails_at) return Error{ErrorCode::device, "no more events"};
    return Done{};
  }
  Status end(std::uint64_t op, StreamHandle) override { return Done{}; }
  Status collect(std::vector<cupti::OpTime>& into) override {
    ++collected;
    return Done{};
  }
  Status stop(std::vector<cupti::OpTime>& last) override {
    stopped = true;
    for (const auto& [op, time] : times) last.push_back({op, time.first, time.second});
    return Done{};
  }
};

class TraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "trace-XXXXXX";
    root = mkdtemp(pattern.data());
    log::configure(LogLevel::warn, root / "log");
  }
  void TearDown() override { fs::remove_all(root); }

  Trace make(std::size_t limit = Trace::most) {
    auto timer = std::make_unique<GivenTimes>();
    given = timer.get();
    return Trace(std::move(timer), 1000, limit);
  }
  void add(Trace& trace, const TraceSlice& slice, double start_us, double end_us) {
    const Trace::Number number = trace.begin(slice);
    given->times[number] = {start_us, end_us};
    trace.end(number);
  }
  json written(Trace& trace) {
    const Status done = trace.write(root / "trace.json");
    EXPECT_TRUE(done) << done.error().message;
    std::ifstream file(root / "trace.json");
    const json all = json::parse(file);
    check(all.at("traceEvents"));
    return all.at("traceEvents");
  }
  std::string warnings() {
    std::ifstream file(root / "log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static std::vector<json> of(const json& events, const std::string& phase) {
    std::vector<json> found;
    for (const json& event : events) {
      if (event.at("ph") == phase) found.push_back(event);
    }
    return found;
  }
  static std::map<int, std::string> rows(const json& events) {
    std::map<int, std::string> names;
    for (const json& event : of(events, "M")) {
      if (event.at("name") == "thread_name") names[event.at("tid")] = event.at("args").at("name");
    }
    return names;
  }
  // "row: name begin+duration" of every slice.
  static std::vector<std::string> slices(const json& events) {
    const auto names = rows(events);
    std::vector<std::string> lines;
    for (const json& event : of(events, "X")) {
      lines.push_back(fmt::format("{}: {} {}+{}", names.at(event.at("tid")),
                                  event.at("name").get<std::string>(), event.at("ts").get<double>(),
                                  event.at("dur").get<double>()));
    }
    return lines;
  }
  static std::vector<std::string> arrows(const json& events) {
    const auto names = rows(events);
    std::vector<std::string> lines;
    for (const json& event : events) {
      const std::string phase = event.at("ph");
      if (phase != "s" && phase != "t" && phase != "f") continue;
      lines.push_back(fmt::format("{}{} {} at {}", phase, event.at("id").get<int>(),
                                  names.at(event.at("tid")), event.at("ts").get<double>()));
    }
    return lines;
  }
  // What every timeline must keep.
  static void check(const json& events) {
    const auto names = rows(events);
    double last_us = 0;
    std::map<int, double> row_free;
    struct Slice {
      double begin, end;
    };
    std::map<int, std::vector<Slice>> by_row;
    for (const json& event : events) {
      if (event.at("ph") == "M") continue;
      const double ts = event.at("ts");
      EXPECT_GE(ts, last_us - 1e-9) << event;
      last_us = ts;
      if (event.at("ph") == "C") continue;
      EXPECT_TRUE(names.contains(event.at("tid"))) << event;
      if (event.at("ph") != "X") continue;
      const double end = ts + event.at("dur").get<double>();
      EXPECT_GE(ts, row_free[event.at("tid")] - 2e-3) << "overlaps: " << event;
      EXPECT_GE(end, ts);
      row_free[event.at("tid")] = end;
      by_row[event.at("tid")].push_back({ts, end});
    }
    std::map<int, std::string> seen;  // phases by arrow
    for (const json& event : events) {
      const std::string phase = event.at("ph");
      if (phase != "s" && phase != "t" && phase != "f") continue;
      seen[event.at("id")] += phase;
      const double ts = event.at("ts");
      const auto& in_row = by_row[event.at("tid")];
      EXPECT_TRUE(std::any_of(in_row.begin(), in_row.end(),
                              [ts](const Slice& s) { return s.begin - 2e-3 <= ts && ts <= s.end + 2e-3; }))
          << "ends nowhere: " << event;
      EXPECT_EQ(event.contains("bp"), phase == "f") << event;
    }
    for (const auto& [id, phases] : seen) {
      EXPECT_GE(phases.size(), 2u) << id;
      EXPECT_EQ(phases.front(), 's') << id;
      EXPECT_EQ(phases.back(), 'f') << id;
      EXPECT_EQ(phases.find_first_not_of('t', 1), phases.size() - 1) << id << ": " << phases;
    }
  }

  fs::path root;
  GivenTimes* given = nullptr;
};

using Track = TraceTrack;

TEST_F(TraceTest, RowsStallsArrowsMemoryAndIterations) {
  Trace trace = make();
  trace.iteration("train 9f31");
  trace.memory(700);
  add(trace, {.name = "cudnnConvolutionForward", .stream = program, .position = 0}, 1000, 1010);
  const std::uint64_t flow = trace.new_flow();
  add(trace, {Track::copies_out, "conv1.out", out, -1, 4096, flow}, 1010, 1030);
  trace.memory(300);
  add(trace, {.name = "cublasSgemm \"x\"\n", .stream = program, .position = 1}, 1012, 1020);
  add(trace, {Track::copies_in, "conv1.out", in, -1, 4096, flow}, 1035, 1045);
  trace.instant("plan left");
  add(trace, {Track::replays, "cudnnActivationForward", program}, 1020, 1022);
  add(trace,
      {.name = "cudnnConvolutionBackwardData",
       .stream = program,
       .position = 2,
       .flow = flow,
       .cause = "prefetch of conv1.out"},
      1045, 1050);
  trace.iteration("train 9f31");
  add(trace, {.name = "cudnnConvolutionForward", .stream = program, .position = 0}, 1051, 1060);
  trace.iteration_planned();
  const json events = written(trace);
  std::vector<std::string> modes;
  for (const json& event : of(events, "X"))
    if (event.at("args").contains("mode")) modes.push_back(event.at("args").at("mode"));
  EXPECT_EQ(modes, (std::vector<std::string>{"demand", "plan"}));
  EXPECT_EQ(
      slices(events),
      (std::vector<std::string>{
          "compute, stream 0: cudnnConvolutionForward 0+10", "iterations: train 9f31 0+50",
          "copies out, stream 1: conv1.out 10+20", "compute, stream 0: cublasSgemm \"x\"? 12+8",
          "replays, stream 0: cudnnActivationForward 20+2", "stalls, stream 0: prefetch of conv1.out 22+23",
          "copies in, stream 2: conv1.out 35+10", "compute, stream 0: cudnnConvolutionBackwardData 45+5",
          "compute, stream 0: cudnnConvolutionForward 51+9", "iterations: train 9f31 51+9"}));
  EXPECT_EQ(arrows(events),
            (std::vector<std::string>{"s1 copies out, stream 1 at 20", "t1 copies in, stream 2 at 40",
                                      "f1 compute, stream 0 at 47.5"}));
  const auto memory = of(events, "C");
  ASSERT_EQ(memory.size(), 2u);
  EXPECT_EQ(memory[0].at("args"), json({{"used", 700}, {"free up to the cap", 300}}));
  EXPECT_EQ(memory[1].at("args"), json({{"used", 300}, {"free up to the cap", 700}}));
  const auto instants = of(events, "i");
  ASSERT_EQ(instants.size(), 1u);
  EXPECT_EQ(instants[0].at("ts"), 12.0);
  EXPECT_TRUE(given->stopped);
  for (const json& event : of(events, "X")) {
    const bool copy = event.at("args").contains("bytes");
    EXPECT_EQ(copy, event.at("name") == "conv1.out") << event;
  }
  // From top to bottom.
  std::map<int, std::string> order;
  for (const json& event : of(events, "M")) {
    if (event.at("name") == "thread_sort_index")
      order[event.at("args").at("sort_index")] = rows(events).at(event.at("tid"));
  }
  std::string names;
  for (const auto& [place, name] : order) names += name + "; ";
  EXPECT_EQ(names,
            "iterations; compute, stream 0; stalls, stream 0; replays, stream 0; copies in, stream 2; "
            "copies out, stream 1; ");
}

TEST_F(TraceTest, SlicesWithoutATimeAndTheirArrowsAreLeftOut) {
  Trace trace = make();
  const std::uint64_t lost_end = trace.new_flow(), lost_begin = trace.new_flow(), single = trace.new_flow();
  add(trace, {Track::copies_out, "a", out, -1, 1, lost_end}, 0, 5);
  trace.end(trace.begin({Track::copies_out, "b", out, -1, 1, lost_begin}));
  add(trace, {Track::copies_in, "a", in, -1, 1, lost_end}, 6, 8);
  add(trace, {Track::copies_in, "b", in, -1, 1, lost_begin}, 8, 9);
  add(trace, {.name = "use of b", .stream = program, .flow = lost_begin}, 9, 10);
  trace.end(trace.begin({.name = "use of a", .stream = program, .flow = lost_end}));
  add(trace, {Track::copies_out, "c", out, -1, 1, single}, 11, 12);
  const json events = written(trace);
  EXPECT_EQ(of(events, "X").size(), 5u);
  EXPECT_EQ(arrows(events),
            (std::vector<std::string>{"s1 copies out, stream 0 at 2.5", "f1 copies in, stream 1 at 7",
                                      "s2 copies in, stream 1 at 8.5", "f2 compute, stream 2 at 9.5"}));
}

TEST_F(TraceTest, OverlappingSlicesOfARowAreParted) {
  Trace trace = make();
  add(trace, {.name = "a", .stream = program}, 0, 10);
  add(trace, {.name = "b", .stream = program}, 4, 12);
  add(trace, {.name = "inside", .stream = program}, 5, 6);
  add(trace, {.name = "c", .stream = side}, 4, 12);
  EXPECT_EQ(slices(written(trace)),
            (std::vector<std::string>{"compute, stream 0: a 0+10", "compute, stream 1: c 4+8",
                                      "compute, stream 0: b 10+2", "compute, stream 0: inside 12+0"}));
}

TEST_F(TraceTest, TheNumberOfEventsIsBounded) {
  Trace trace = make(3);
  add(trace, {.name = "a", .stream = program}, 0, 1);
  trace.memory(1);
  trace.instant("x");
  EXPECT_EQ(trace.begin({.name = "b", .stream = program}), Trace::none);
  trace.end(Trace::none);
  trace.memory(2);
  trace.iteration("late");
  EXPECT_EQ(warnings(), "pooch: warning: POOCH_TRACE: the first 3 events are kept, and no more\n");
  EXPECT_EQ(written(trace).size(), 1 + 4 + 3u);
}

TEST_F(TraceTest, ATimerThatFailsEndsTheTimelineWithOneLine) {
  Trace trace = make();
  given->fails_at = 1;
  add(trace, {.name = "a", .stream = program}, 0, 1);
  EXPECT_EQ(trace.begin({.name = "b", .stream = program}), Trace::none);
  EXPECT_EQ(trace.begin({.name = "c", .stream = program}), Trace::none);
  EXPECT_EQ(warnings(), "pooch: warning: POOCH_TRACE: the timeline ends early: no more events\n");
  EXPECT_EQ(slices(written(trace)).size(), 1u);
}

TEST_F(TraceTest, NothingTracedIsAValidTimeline) {
  Trace trace = make();
  EXPECT_EQ(written(trace).size(), 1u);
}

TEST_F(TraceTest, AFileThatCannotBeWrittenIsNamed) {
  Trace trace = make();
  add(trace, {.name = "a", .stream = program}, 0, 1);
  const Status done = trace.write("/nowhere/at all.json");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "/nowhere/at all.json: No such file or directory");
}

TEST_F(TraceTest, AFileOfManyPiecesIsWrittenWholeOrLeftAsItWas) {
  Trace trace = make();
  constexpr std::size_t events = 12'000;  // more than one piece
  for (std::size_t i = 0; i < events; ++i) trace.memory(i);
  const std::string path = root / "trace.json";
  std::ofstream(path) << "before";
  const auto content = [&] {
    std::ifstream file(path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  int asked = 0;
  const auto nobody = [] { return false; };
  const auto no_longer = [&] { return ++asked == 1; };
  const auto wanted = [] { return true; };
  EXPECT_TRUE(TraceFile(trace).write(path, {.again = true}, nobody));
  EXPECT_TRUE(TraceFile(trace).write(path, {.again = true}, no_longer));
  EXPECT_EQ(asked, 2) << "before each piece";
  EXPECT_EQ(content(), "before");
  EXPECT_TRUE(TraceFile(trace).write(path, {.again = true}, wanted));
  EXPECT_EQ(of(json::parse(content()).at("traceEvents"), "C").size(), events);
}

// Any mixture of streams and arrows, timed by events on a device that works as late as it may.
TEST_F(TraceTest, AnyRunGivesAValidTimeline) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    test::LazyDevice device(64 * MiB, seed);
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    std::size_t count = 0;
    {
      Trace trace(std::move(*cupti::open_op_timer(device, cupti::TimerChoice::events)), 1000);
      std::vector<std::uint64_t> flows{0};
      const StreamHandle streams[] = {*device.create_stream(), *device.create_stream(),
                                      *device.create_stream()};
      for (int i = 0; i < 900; ++i) {
        if (below(40) == 0) trace.iteration("phase");
        if (below(4) == 0) trace.memory(below(1200));
        if (below(8) == 0) flows.push_back(trace.new_flow());
        const StreamHandle stream = streams[below(3)];
        const auto track = static_cast<Track>(below(4));
        const Trace::Number number =
            trace.begin({track, "work", stream, i, below(5),
                         flows[below(static_cast<unsigned>(flows.size()))], below(3) == 0 ? "a fetch" : ""});
        device.launch(
            stream, [] {}, 0.5 + below(20));
        trace.end(number);
        ++count;
      }
      device.drain();
      EXPECT_LT(device.events(), 1900u);
      const json events = written(trace);
      std::size_t traced = 0;
      for (const std::string& line : slices(events))
        traced += line.find(": work ") != std::string::npos ? 1 : 0;
      EXPECT_EQ(traced, count);
      EXPECT_FALSE(arrows(events).empty());
    }
    EXPECT_EQ(device.events(), 0u) << "all events were given back";
    EXPECT_TRUE(device.complaints().empty());
  }
}

}  // namespace
}  // namespace pooch::runtime

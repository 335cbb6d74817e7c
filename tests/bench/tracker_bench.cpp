// What the tracker costs per op while iterations are followed: an iteration of a recorded run of the
// trainer's ResNet-50 or GoogLeNet, again and again, allocations and frees included. Goal: 1 µs. ./dev bench
#include <benchmark/benchmark.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "core/recording.h"
#include "tracker/tracker.h"

namespace {

using namespace pooch;

std::string decompressed(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string packed{std::istreambuf_iterator<char>(file), {}};
  std::string text;
  std::vector<char> piece(1 << 20);
  ZSTD_DCtx* const context = ZSTD_createDCtx();
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  while (in.pos < in.size) {
    ZSTD_outBuffer out{piece.data(), piece.size(), 0};
    if (ZSTD_isError(ZSTD_decompressStream(context, &out, &in)) != 0) break;
    text.append(piece.data(), out.pos);
  }
  ZSTD_freeDCtx(context);
  return text;
}

// Records with all that they point to.
class Stream {
 public:
  void add(const Record& record) {
    records_.push_back(record);
    if (auto* const call = std::get_if<Call>(&records_.back())) {
      call->accesses = accesses_.emplace_back(call->accesses.begin(), call->accesses.end());
      if (call->window != nullptr) call->window = &windows_.emplace_back(*call->window);
      if (call->filter != nullptr) call->filter = &filters_.emplace_back(*call->filter);
    }
  }
  const std::deque<Record>& records() const { return records_; }

 private:
  std::deque<Record> records_;
  std::deque<std::vector<Access>> accesses_;
  std::deque<Window> windows_;
  std::deque<Shape> filters_;
};

// As the session does it.
class Rerun {
 public:
  void operator()(const RecordedAllocation& a) {
    tracker_.allocated(a.address, a.bytes, a.managed, a.by_program);
  }
  void operator()(const RecordedFree& free) { tracker_.freed(free.address); }
  void operator()(const Call& call) {
    tracker_.resolve(call, op_);
    if (op_.step) benchmark::DoNotOptimize(tracker_.expect(op_));
    tracker_.launched(op_);
    for (const tracker::Iteration& iteration : tracker_.take_completed()) last_ = iteration;
  }
  const std::optional<tracker::Iteration>& last() const { return last_; }
  const tracker::Tracker& tracker() const { return tracker_; }

 private:
  tracker::Tracker tracker_;
  tracker::Op op_;
  std::optional<tracker::Iteration> last_;  // complete
};

void follow(benchmark::State& state, const char* recording) {
  const std::string text = decompressed(std::string(POOCH_RECORDINGS "/") + recording);
  std::size_t at = 0;
  auto reader = RecordingReader::open([&](std::span<char> into) -> Result<std::size_t> {
    const std::size_t bytes = std::min(into.size(), text.size() - at);
    std::memcpy(into.data(), text.data() + at, bytes);
    at += bytes;
    return bytes;
  });
  if (!reader) return state.SkipWithError(reader.error().message.c_str());
  Rerun rerun;
  Stream all;
  std::vector<std::size_t> record_of;  // by step
  while (const auto record = reader->next()) {
    if (!*record) break;
    all.add(**record);
    std::visit(rerun, all.records().back());
    record_of.resize(rerun.tracker().steps(), all.records().size() - 1);
  }
  if (!rerun.last()) return state.SkipWithError("the recording has no iteration");
  const auto begin = all.records().begin();
  const auto first = begin + static_cast<std::ptrdiff_t>(record_of[rerun.last()->start - 1] + 1);
  const auto end = begin + static_cast<std::ptrdiff_t>(record_of[rerun.last()->end - 1] + 1);
  // From the program's start up to that iteration, and then round and round.
  Rerun again;
  for (auto record = begin; record != end; ++record) std::visit(again, *record);
  const std::uint64_t ops = again.tracker().ops(), iterations = again.tracker().iterations().count();
  for ([[maybe_unused]] auto _ : state)
    for (auto record = first; record != end; ++record) std::visit(again, *record);
  if (again.tracker().iterations().count() - iterations != static_cast<std::uint64_t>(state.iterations()))
    return state.SkipWithError("the tracker lost its way");
  const auto followed = static_cast<double>(again.tracker().ops() - ops);
  state.counters["ops_per_iteration"] = followed / static_cast<double>(state.iterations());
  state.counters["per_op"] =
      benchmark::Counter(followed, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(follow, resnet50, "resnet50-32.zst")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(follow, googlenet, "googlenet-32.zst")->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();

// What a call pays for being recorded: Session::submit around a launch that does nothing, unrecorded, into a
// file that swallows everything, and into a pipe with a reader. ./dev bench
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/lazy_device.h"

namespace {

using namespace pooch;

// A named pipe, and a thread that reads it to its end.
class Drain {
 public:
  Drain() {
    std::string name = (std::filesystem::temp_directory_path() / "pooch-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    if (mkfifo(path().c_str(), 0600) != 0) std::abort();
    const int file = open(path().c_str(), O_RDONLY | O_NONBLOCK);
    fcntl(file, F_SETFL, 0);
    first_writer_ = open(path().c_str(), O_WRONLY);  // no end of file before the session has opened it
    thread_ = std::thread([file] {
      for (std::vector<char> piece(64 << 10); read(file, piece.data(), piece.size()) > 0;) continue;
      close(file);
    });
  }
  ~Drain() {
    close(first_writer_);
    thread_.join();
    std::filesystem::remove_all(folder_);
  }
  std::string path() const { return folder_ / "calls"; }

 private:
  std::filesystem::path folder_;
  int first_writer_ = -1;
  std::thread thread_;
};

// A convolution's call: four operands with shapes, a window and a filter.
void submit(benchmark::State& state, const std::string& record_file) {
  test::LazyDevice device(8 * GiB);
  Config config;
  config.memory_cap = SizeSetting{"8GiB"};
  config.host_memory = SizeSetting{"1GiB"};
  config.record_file = record_file;
  const auto session = std::move(*runtime::Session::open(config, device));
  const Shape map{4, 4, {128, 256, 56, 56}}, filter{4, 4, {256, 256, 3, 3}};
  const Window window{2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1};
  std::vector<Access> accesses;
  for (const auto& [effect, shape] : {std::pair(Effect::overwrite, map), std::pair(Effect::read, map),
                                      std::pair(Effect::read, filter), std::pair(Effect::scratch, Shape{})})
    accesses.push_back({*session->allocate(16 * MiB, std::nullopt), 16 * MiB, effect, shape});
  Call call{"cudnnConvolutionForward", OpKind::conv_forward, StreamHandle::legacy, accesses};
  call.window = &window;
  call.filter = &filter;
  for ([[maybe_unused]] auto _ : state) {
    const int status = session->submit(
        call, [] { return 0; }, 2);
    benchmark::DoNotOptimize(status);
  }
}

void submit_unrecorded(benchmark::State& state) {
  submit(state, "");
}
BENCHMARK(submit_unrecorded);

void submit_recorded(benchmark::State& state) {
  submit(state, "/dev/null");
}
BENCHMARK(submit_recorded);

void submit_recorded_through_a_pipe(benchmark::State& state) {
  const Drain drain;
  submit(state, drain.path());
}
BENCHMARK(submit_recorded_through_a_pipe);

}  // namespace

BENCHMARK_MAIN();

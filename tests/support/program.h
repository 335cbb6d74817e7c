// A made-up program for session tests: tensors of a few pages, ops that read some and write one, in one or
// two streams ordered by events. A shadow copy in plain memory says what every tensor must contain.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "core/config.h"
#include "runtime/session/session.h"
#include "tests/support/faulty_device.h"
#include "tests/support/lazy_device.h"

namespace pooch::test {

struct Tensor {
  Address address;
  std::uint64_t bytes;
  std::vector<std::uint64_t> expected;  // one word per 64 KiB: enough to tell contents apart
};

class Program {
 public:
  static constexpr std::uint64_t stride = 64 * KiB;

  Program(LazyDevice& device, runtime::Session& session, unsigned seed)
      : device_(device), session_(session), random_(seed) {
    for (StreamHandle& stream : streams_) stream = *device.create_stream();
  }

  // From now on some ops keep their operands, or the one that they read, to themselves.
  void hide() { hides_ = true; }
  // From now on its calls can be made again. The replays' n-th, if not 0, makes something wrong.
  void keep(int wrong = 0) { keeps_ = true, spoils_ = wrong; }
  // The same `ops` random calls so many times, each time with tensors of its own. False: as for run.
  bool repeat(int rounds, int ops);
  // Runs `ops` random calls. False: the session refused one (out of memory).
  bool run(int ops);
  // Every live tensor, read back through the session, is what it should be.
  bool check_all();
  int wrong_words() const { return wrong_; }
  int passed() const { return passed_; }  // calls that the session did not want to know

 private:
  std::uint64_t* word(Address at, std::uint64_t i) {
    return reinterpret_cast<std::uint64_t*>(device_.translate(at + i * stride, sizeof(std::uint64_t)));
  }
  bool allocate();
  bool release();
  bool compute();
  bool read_back(Tensor& t);
  StreamHandle next_stream();
  // `work` is what the call does, in a stream, with its operands at these addresses.
  using Work = std::function<void(std::span<const Address>, StreamHandle)>;
  int issue_kept(Call call, const Work& work);
  int issue(const Call& call, FunctionRef<int()> launch);

  LazyDevice& device_;
  runtime::Session& session_;
  std::mt19937 random_;
  StreamHandle streams_[2];
  int current_ = 0;
  bool hides_ = false, keeps_ = false;
  int spoils_ = 0;  // the replay that is so many replays from now
  std::vector<Tensor> tensors_;
  std::uint64_t counter_ = 0;
  int wrong_ = 0, passed_ = 0;
};

// What sessions of tests have in common: they say nothing but errors.
Config session_config(const char* cap, const char* host, Policy policy = Policy::demand);

struct Planted {
  int struck = 0;  // programs in which the fault was planted
  int found = 0;   // that went wrong
};
// Random programs with the fault planted in each, until one goes wrong.
Planted plant(Fault fault, const Config& config);

}  // namespace pooch::test

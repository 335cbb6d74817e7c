// A made-up program for session tests: tensors of a few pages, ops that read some and write one, in one or
// two streams ordered by events. A shadow copy in plain memory says what every tensor must contain.
#pragma once

#include <cstdint>
#include <random>
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
  // Runs `ops` random calls. False: the session refused one (out of memory).
  bool run(int ops);
  // Every live tensor, read back through the session, is what it should be.
  bool check_all();
  int wrong_words() const { return wrong_; }
  int passed() const { return passed_; }  // calls that the session did not want to know

 private:
  std::uint64_t* word(const Tensor& t, std::uint64_t i) {
    return reinterpret_cast<std::uint64_t*>(device_.translate(t.address + i * stride, sizeof(std::uint64_t)));
  }
  bool allocate();
  bool release();
  bool compute();
  bool read_back(Tensor& t);
  StreamHandle next_stream();
  int issue(const Call& call, FunctionRef<int()> launch);

  LazyDevice& device_;
  runtime::Session& session_;
  std::mt19937 random_;
  StreamHandle streams_[2];
  int current_ = 0;
  bool hides_ = false;
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

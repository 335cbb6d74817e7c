// Device times, by events in one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace train {

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {}
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // The next lap begins here.
  void start();
  // Ends a lap; the next one begins.
  void lap();
  // Of all laps but the first, or of some of them where they are more than thousands; of that one if it is
  // the only one. The stream must have been waited for.
  double median_milliseconds();

 private:
  void read_laps();

  cudaStream_t stream_;
  std::vector<cudaEvent_t> marks_;
  std::vector<std::size_t> ends_;  // the marks that end a lap, which began at the one before
  std::vector<float> times_;       // milliseconds of earlier laps, whose marks are gone
};

}  // namespace train

#include "stopwatch.h"

#include <algorithm>

#include "check.h"

namespace train {

Stopwatch::~Stopwatch() {
  for (const cudaEvent_t event : marks_) cudaEventDestroy(event);
}

void Stopwatch::start() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  marks_.push_back(event);
  check(cudaEventRecord(event, stream_), "cudaEventRecord");
}

void Stopwatch::lap() {
  start();
  ends_.push_back(marks_.size() - 1);
}

double Stopwatch::median_milliseconds() const {
  std::vector<float> times;
  for (const std::size_t end : ends_) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, marks_[end - 1], marks_[end]), "cudaEventElapsedTime");
    times.push_back(milliseconds);
  }
  if (times.size() > 1) times.erase(times.begin());
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace train

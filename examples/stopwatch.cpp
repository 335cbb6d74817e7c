#include "stopwatch.h"

#include <algorithm>
#include <utility>

#include "check.h"

namespace train {
namespace {
// A long run grows neither by an event nor by a number each time.
constexpr std::size_t most_marks = 1024, most_times = 16384;
}  // namespace

Stopwatch::~Stopwatch() {
  for (const cudaEvent_t event : marks_) cudaEventDestroy(event);
}

void Stopwatch::start() {
  if (marks_.size() == most_marks) {
    check(cudaEventSynchronize(marks_.back()), "cudaEventSynchronize");
    read_laps();
    std::swap(marks_.front(), marks_.back());  // where the next lap begins
    for (; marks_.size() > 1; marks_.pop_back()) cudaEventDestroy(marks_.back());
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  marks_.push_back(event);
  check(cudaEventRecord(event, stream_), "cudaEventRecord");
}

void Stopwatch::lap() {
  start();
  ends_.push_back(marks_.size() - 1);
}

void Stopwatch::read_laps() {
  for (const std::size_t end : ends_) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, marks_[end - 1], marks_[end]), "cudaEventElapsedTime");
    times_.push_back(milliseconds);
  }
  ends_.clear();
  if (times_.size() < most_times) return;
  // Every other one has the same median, nearly.
  for (std::size_t i = 0; 2 * i < times_.size(); ++i) times_[i] = times_[2 * i];
  times_.resize(times_.size() / 2);
}

double Stopwatch::median_milliseconds() {
  read_laps();
  std::vector<float> times = times_;
  if (times.size() > 1) times.erase(times.begin());
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace train

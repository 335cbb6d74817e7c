// alloc_bench BATCHES PAIRS small|large: the processor time of cuMemAllocAsync with the cuMemFreeAsync of the
// oldest of 64, too small to be pooch's or large enough. Prints nanoseconds per pair, one number for each
// batch of pairs.
#include <cuda.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

// Processor time, so that other work on the machine does not count.
double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Keeps 64 alive; each new one takes the place of the oldest.
class Ring {
 public:
  explicit Ring(size_t unit) : unit_(unit) {}

  double pairs(int count) {
    int failed = 0;
    const double begin = thread_ns();
    for (int i = 0; i < count; ++i, ++next_) {
      CUdeviceptr& place = live_[next_ % live_.size()];
      if (place != 0) failed += cuMemFreeAsync(place, nullptr) != CUDA_SUCCESS;
      failed += cuMemAllocAsync(&place, unit_ * (1 + next_ % 7), nullptr) != CUDA_SUCCESS;
    }
    expect(failed == 0, "allocations");
    return (thread_ns() - begin) / count;
  }

 private:
  size_t unit_;
  std::size_t next_ = 0;
  std::vector<CUdeviceptr> live_ = std::vector<CUdeviceptr>(64);
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  CUcontext context;
  expect(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
             cuCtxSetCurrent(context) == CUDA_SUCCESS,
         "the driver starts");
  const int batches = std::atoi(arguments[1]), pairs = std::atoi(arguments[2]);
  Ring ring(std::string_view(arguments[3]) == "small" ? 1000 : size_t{3} << 20);
  for (int batch = -1; batch < batches; ++batch) {
    const double took = ring.pairs(pairs);
    if (batch >= 0) std::printf("%.1f\n", took);  // the first one warms up
  }
  return 0;
}

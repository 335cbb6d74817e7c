#include "policy/parallel.h"

#include <tbb/parallel_for.h>

namespace pooch::policy::detail {

// Bodies take milliseconds to seconds and few of them share the work: each is a task of its own.
void run_all(std::size_t n, void (*call)(void* work, std::size_t i), void* work) {
  tbb::parallel_for(
      tbb::blocked_range<std::size_t>(0, n, 1),
      [=](const tbb::blocked_range<std::size_t>& range) {
        for (std::size_t i = range.begin(); i != range.end(); ++i) call(work, i);
      },
      tbb::simple_partitioner());
}

}  // namespace pooch::policy::detail

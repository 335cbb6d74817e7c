#include "runtime/memory/outside_account.h"

namespace pooch::runtime {

Status OutsideAccount::open() {
  const auto free = device_.free_bytes();
  if (!free) return free.error();
  free_at_start_ = *free;
  return Done{};
}

// How tightly the driver packs small allocations, and when it has carried out a stream-ordered free, only the
// driver knows. Asking costs some microseconds: it is asked each time while the answers still grow, then now
// and then. In between, what comes is added and what goes still counts, so that the answer is never too
// small.
[[gnu::hot]] void OutsideAccount::note_served(std::uint64_t bytes) {
  constexpr std::uint64_t steady = 4096, now_and_then = 64, many = 8 * MiB;
  added_since_asked_ += bytes;
  const bool due = ++served_since_growth_ <= steady || served_since_growth_ % now_and_then == 0 ||
                   added_since_asked_ >= many;
  measured_ += bytes;
  const std::uint64_t now = with(0);
  if (due || (now > pool_.outside() && !roomy(now))) ask();
}

void OutsideAccount::ask() {
  const auto free = device_.free_bytes();
  if (!free) return;
  added_since_asked_ = 0;
  const std::uint64_t taken = free_at_start_ > *free ? free_at_start_ - *free : 0;
  measured_ = taken > pool_.created() ? taken - pool_.created() : 0;
  if (measured_ <= measured_peak_) return;
  measured_peak_ = measured_;
  served_since_growth_ = 0;
}

bool OutsideAccount::shrinks() {
  const std::uint64_t before = pool_.taken_outside();
  ask();
  return with(0) < before && publish();
}

}  // namespace pooch::runtime

#include "runtime/execution/op_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/log.h"

namespace pooch::runtime {
namespace {

// An op is timed so often; the least time counts, since others may have run beside it.
constexpr std::uint32_t wanted = 2;
// The most that a byte can be worth, in microseconds: on a link of 1 GB/s.
constexpr double most = 1e-3;
// A byte's worth rises with every op that says that the link is busy, and falls otherwise, the faster the
// higher it is: so the share of such ops sets how high it stands, and it does not rise without end where some
// wait whatever is done.
constexpr double rise = 1.5, fall = 0.00015;
// An op that waits says so if another one waited at most so many ops before it. One alone may need much at
// once, and would wait at any price.
constexpr std::uint64_t in_succession = 16;

}  // namespace

std::optional<std::uint64_t> OpCosts::begin(std::uint64_t key, StreamHandle stream) {
  if (failed_ || known_[key].times >= wanted) return std::nullopt;
  if (!timer_) {
    auto opened = cupti::open_op_timer(device_, cupti::TimerChoice::events);  // the profiler may hold CUPTI
    if (opened) timer_ = std::move(*opened);
  }
  failed_ = timer_ == nullptr || !timer_->begin(next_, stream);
  if (failed_)
    return log::info("what ops cost cannot be measured: nothing is dropped without a plan"), std::nullopt;
  pending_.emplace(next_, key);
  return next_++;
}

void OpCosts::end(std::uint64_t number, StreamHandle stream) {
  if (!timer_->end(number, stream)) pending_.erase(number);
}

void OpCosts::collect() {
  if (pending_.empty() || !timer_) return;
  times_.clear();
  if (!timer_->collect(times_)) return;
  for (const cupti::OpTime& time : times_) {
    const auto found = pending_.find(time.op);
    if (found == pending_.end()) continue;
    Known& known = known_[found->second];
    const double us = time.end_us - time.start_us;
    known.us = known.times++ == 0 ? us : std::min(known.us, us);
    pending_.erase(found);
  }
}

std::optional<double> OpCosts::us(std::uint64_t key) const {
  const auto found = known_.find(key);
  if (found == known_.end() || found->second.times == 0) return std::nullopt;
  return found->second.us;
}

void OpCosts::passed(bool ran_dry) {
  ++since_dry_;
  const bool busy = ran_dry && since_dry_ <= in_succession;
  if (ran_dry) since_dry_ = 0;
  const double by = busy ? rise : 1 - fall * (1 + std::log(us_per_byte_ / least));
  us_per_byte_ = std::clamp(us_per_byte_ * by, least, most);
}

}  // namespace pooch::runtime

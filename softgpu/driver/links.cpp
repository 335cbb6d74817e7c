#include "softgpu/driver/links.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace softgpu {
namespace {

constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();

}  // namespace

Links::Links(const Model& model)
    : model_(model), left_beside_(std::min(2 * model.both_ways - 1, 2 - 1 / model.both_ways)) {}

double Links::rate(Engine way) const {
  return way == Engine::to_device ? model_.to_device : model_.to_host;
}

// What a link with these rates has left for one more crossing.
double Links::left_of(double same_rate, double opposite_rate, const Load& load) const {
  return same_rate * (1 - (1 - left_beside_) * load.opposite / opposite_rate) - load.same;
}

double Links::left_at(Nanoseconds time, int device, Engine way) const {
  Load link, uplink;
  double memory = 0;
  for (const Crossing& other : booked_) {
    if (time < other.begin || other.end <= time) continue;
    const auto add = [&](Load& load) { (other.way == way ? load.same : load.opposite) += other.rate; };
    if (other.device == device) add(link);
    if (switch_of(other.device) == switch_of(device)) add(uplink);
    memory += other.rate;
  }
  const Engine back = way == Engine::to_device ? Engine::to_host : Engine::to_device;
  double left = left_of(rate(way), rate(back), link);
  if (model_.devices_per_switch > 1)
    left = std::min(left, left_of(model_.switch_uplink, model_.switch_uplink, uplink));
  if (model_.host_memory > 0) left = std::min(left, model_.host_memory - memory);
  return left;
}

Nanoseconds Links::next_change(Nanoseconds after) const {
  Nanoseconds next = never;
  for (const Crossing& other : booked_) {
    if (other.begin > after) next = std::min(next, other.begin);
    if (other.end > after) next = std::min(next, other.end);
  }
  return next;
}

// A copy alone moves its bytes evenly over its time, latency included. Beside others it runs at the share of
// that which is left to a copy at the link's full rate.
Nanoseconds Links::carry(int device, Engine way, Nanoseconds start, Nanoseconds alone, std::uint64_t bytes) {
  if (bytes == 0 || alone <= 0) return start + alone;
  const double full = rate(way),
               own = std::min(full, static_cast<double>(bytes) * 1e9 / static_cast<double>(alone));
  std::vector<Crossing> mine;
  auto to_go = static_cast<double>(alone);  // nanoseconds at full share
  const double least = std::min(0.0, left_beside_);
  for (Nanoseconds at = start;;) {
    const double share = std::clamp(left_at(at, device, way) / full, least, 1.0);
    const Nanoseconds until = next_change(at);
    const bool ends = share > 0 && std::ceil(to_go / share) <= static_cast<double>(until - at);
    const Nanoseconds end = ends ? at + static_cast<Nanoseconds>(std::ceil(to_go / share)) : until;
    if (share > 0) mine.push_back({at, end, device, way, own * share});
    if (ends) {
      booked_.insert(booked_.end(), mine.begin(), mine.end());
      return end;
    }
    to_go -= share * static_cast<double>(until - at);
    at = until;
  }
}

void Links::forget_before(Nanoseconds time) {
  std::erase_if(booked_, [&](const Crossing& crossing) { return crossing.end <= time; });
}

}  // namespace softgpu

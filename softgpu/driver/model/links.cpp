#include "softgpu/driver/model/links.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace softgpu {
namespace {

auto first_that_ends_after(Nanoseconds time, const std::deque<Links::Crossing>& lane) {
  return std::partition_point(lane.begin(), lane.end(),
                              [&](const Links::Crossing& crossing) { return crossing.end <= time; });
}

}  // namespace

Links::Links(const Model& model)
    : model_(model), left_beside_(std::min(2 * model.both_ways - 1, 2 - 1 / model.both_ways)) {}

std::size_t Links::lane_of(int device, Engine by, Engine way) {
  const int of_device = (by == Engine::compute ? 2 : 0) + (way == Engine::to_host ? 1 : 0);
  return static_cast<std::size_t>(4 * device + of_device);
}

// What a link with these rates has left for one more crossing.
double Links::left_of(double same_rate, double opposite_rate, const Load& load) const {
  return same_rate * (1 - (1 - left_beside_) * load.opposite / opposite_rate) - load.same;
}

Links::Left Links::left_at(Nanoseconds time, int device, Engine way) const {
  Load link, uplink;
  double memory = 0;
  Nanoseconds until = std::numeric_limits<Nanoseconds>::max();
  for (const Lane& lane : lanes_) {
    const auto next = first_that_ends_after(time, lane);
    if (next == lane.end()) continue;
    const bool under_way = next->begin <= time;
    until = std::min(until, under_way ? next->end : next->begin);
    if (!under_way) continue;
    const auto add = [&](Load& load) { (next->way == way ? load.same : load.opposite) += next->rate; };
    if (next->device == device) add(link);
    if (switch_of(next->device) == switch_of(device)) add(uplink);
    memory += next->rate;
  }
  const Engine back = way == Engine::to_device ? Engine::to_host : Engine::to_device;
  double left = left_of(rate(way), rate(back), link);
  if (model_.devices_per_switch > 1)
    left = std::min(left, left_of(model_.switch_uplink, model_.switch_uplink, uplink));
  if (model_.host_memory > 0) left = std::min(left, model_.host_memory - memory);
  return {left, until};
}

// A copy alone moves its bytes evenly over its time, latency included. Beside others it runs at the share of
// that which is left to a copy at the link's full rate.
Nanoseconds Links::carry(int device, Engine by, Engine way, Nanoseconds start, Nanoseconds alone,
                         std::uint64_t bytes) {
  if (bytes == 0 || alone <= 0) return start + alone;
  Lane& lane = lanes_[lane_of(device, by, way)];
  const double full = rate(way),
               own = std::min(full, static_cast<double>(bytes) * 1e9 / static_cast<double>(alone));
  auto to_go = static_cast<double>(alone);  // nanoseconds at full share
  const double least = std::min(0.0, left_beside_);
  for (Nanoseconds at = start;;) {
    const Left left = left_at(at, device, way);
    const double share = std::clamp(left.rate / full, least, 1.0);
    const bool ends = share > 0 && std::ceil(to_go / share) <= static_cast<double>(left.until - at);
    const Nanoseconds end = ends ? at + static_cast<Nanoseconds>(std::ceil(to_go / share)) : left.until;
    lane.push_back({at, end, device, way, std::max(0.0, own * share)});  // 0: held up
    if (ends) return end;
    to_go -= share * static_cast<double>(left.until - at);
    at = left.until;
  }
}

bool Links::copies(int device, Engine way, Nanoseconds time) const {
  const Lane& lane = lanes_[lane_of(device, way, way)];
  const auto next = first_that_ends_after(time, lane);
  return next != lane.end() && next->begin <= time;
}

void Links::forget_before(Nanoseconds time) {
  for (Lane& lane : lanes_) {
    while (!lane.empty() && lane.front().end <= time) lane.pop_front();
  }
}

std::vector<Links::Crossing> Links::booked() const {
  std::vector<Crossing> all;
  for (const Lane& lane : lanes_) all.insert(all.end(), lane.begin(), lane.end());
  return all;
}

}  // namespace softgpu

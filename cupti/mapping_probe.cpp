#include "cupti/mapping_probe.h"

#include <algorithm>
#include <array>

namespace pooch::cupti {
namespace {

constexpr std::size_t repetitions = 3;

class Probe {
 public:
  Probe(Device& device, StreamHandle stream, std::span<const PhysicalHandle> handles, std::uint64_t bytes,
        bool& still_mapped)
      : device_(device), stream_(stream), handles_(handles), bytes_(bytes), still_mapped_(still_mapped) {}
  ~Probe() {
    for (const EventHandle event : events_) (void)device_.destroy_event(event);
    if (base_ != Address{} && !still_mapped_) (void)device_.release(base_, handles_.size() * bytes_);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  Status prepare() {
    for (int i = 0; i < 2; ++i) {
      const auto event = device_.create_timing_event();
      if (!event) return event.error();
      events_.push_back(*event);
    }
    const auto base = device_.reserve(handles_.size() * bytes_);
    if (!base) return base.error();
    base_ = *base;
    return Done{};
  }

  // The stream is idle: an event has the host's time.
  template <class Work>
  Result<double> median_us(Work work) {
    std::array<double, repetitions> times{};
    for (double& time : times) {
      if (const Status s = device_.record(events_[0], stream_); !s) return s.error();
      if (const Status s = work(); !s) return s.error();
      if (const Status s = device_.record(events_[1], stream_); !s) return s.error();
      if (const Status s = device_.synchronize(events_[1]); !s) return s.error();
      const auto elapsed = device_.elapsed_us(events_[0], events_[1]);
      if (!elapsed) return elapsed.error();
      time = *elapsed;
    }
    std::sort(times.begin(), times.end());
    return times[repetitions / 2];
  }

  Result<double> move_us(std::size_t count) {
    return median_us([&] { return move(count); });
  }
  // The host sees that work has ended, and launches more.
  Result<double> launch_us() {
    return median_us([&] { return device_.synchronize(events_[0]); });
  }

 private:
  Status move(std::size_t count) {
    std::size_t mapped = 0;
    Status done = Done{};
    while (mapped < count) {
      done = device_.map(base_ + mapped * bytes_, bytes_, handles_[mapped]);
      if (!done) break;
      ++mapped;
    }
    if (done) done = device_.set_access(base_, count * bytes_);
    if (mapped == 0) return done;
    const Status unmapped = device_.unmap(base_, mapped * bytes_);
    still_mapped_ = !unmapped;
    return done ? unmapped : done;
  }

  Device& device_;
  StreamHandle stream_;
  std::span<const PhysicalHandle> handles_;
  std::uint64_t bytes_;
  Address base_{};
  bool& still_mapped_;
  std::vector<EventHandle> events_;
};

}  // namespace

Result<MappingPrices> probe_mapping(Device& device, StreamHandle stream,
                                    std::span<const PhysicalHandle> handles, std::uint64_t bytes,
                                    bool& still_mapped) {
  Probe probe(device, stream, handles, bytes, still_mapped);
  if (const Status s = probe.prepare(); !s) return s.error();
  MappingPrices prices;
  const auto launch = probe.launch_us();
  if (!launch) return launch.error();
  prices.launch_us = *launch;
  for (std::size_t count = 1; count <= handles.size(); count *= 2) {
    const auto us = probe.move_us(count);
    if (!us) return us.error();
    prices.moves.push_back({static_cast<std::uint32_t>(count), *us});
  }
  return prices;
}

}  // namespace pooch::cupti

#include "cupti/link_probe.h"

#include <algorithm>
#include <array>

namespace pooch::cupti {
namespace {

constexpr std::uint64_t sizes[] = {64 * KiB, 1 * MiB, 16 * MiB, 64 * MiB};
constexpr std::uint64_t lead_bytes = 1 * MiB;
constexpr std::size_t repetitions = 3;
using Direction = LinkSample::Direction;

// The timing events of one direction, and the one that lets both directions start together.
class Probe {
 public:
  Probe(Device& device, StreamHandle out, StreamHandle in, const ProbeMemory& memory)
      : device_(device), streams_{out, in}, memory_(memory) {}
  ~Probe() {
    for (const EventHandle event : events_) (void)device_.destroy_event(event);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  Status prepare() {
    for (int i = 0; i < 5; ++i) {
      const auto event = device_.create_timing_event();
      if (!event) return event.error();
      events_.push_back(*event);
    }
    return Done{};
  }

  Status alone(std::uint64_t bytes, Direction direction, std::vector<LinkSample>& into) {
    std::array<double, repetitions> times{};
    for (double& time : times) {
      if (Status s = submit(direction, bytes, 0, memory_.bytes); !s) return s;
      if (Status s = finish(direction, time); !s) return s;
    }
    into.push_back({direction, false, bytes, median(times)});
    return Done{};
  }

  // Their leads run side by side and have the same size, so that they begin at about the same time. A link
  // may favour what was submitted first, so each direction is that once.
  Status together(std::uint64_t bytes, std::vector<LinkSample>& into) {
    std::array<double, repetitions> first_out{}, first_in{}, out{}, in{};
    for (std::size_t i = 0; i < repetitions; ++i) {
      if (Status s = beside(bytes, Direction::out, first_out[i], in[i]); !s) return s;
      if (Status s = beside(bytes, Direction::in, first_in[i], out[i]); !s) return s;
    }
    into.push_back({Direction::out, true, bytes, at_mean_rate(median(first_out), median(out))});
    into.push_back({Direction::in, true, bytes, at_mean_rate(median(first_in), median(in))});
    return Done{};
  }

 private:
  // Microseconds of a copy in the first direction and of one in the other, each beside copies of the other
  // direction.
  Status beside(std::uint64_t bytes, Direction first, double& first_us, double& second_us) {
    constexpr int trailing = 2;  // a slower second copy ends before they do
    const std::uint64_t half = memory_.bytes / 2;
    const Direction second = first == Direction::out ? Direction::in : Direction::out;
    const auto offset = [&](Direction direction) { return direction == Direction::out ? 0 : half; };
    if (Status s = submit(first, bytes, offset(first), half); !s) return s;
    for (int i = 0; i < trailing; ++i)
      if (Status s = copy(first, bytes, offset(first)); !s) return s;
    if (Status s = device_.record(events_.back(), streams_[index(first)]); !s) return s;
    if (Status s = submit(second, bytes, offset(second), half); !s) return s;
    if (Status s = finish(first, first_us); !s) return s;
    if (Status s = finish(second, second_us); !s) return s;
    return device_.synchronize(events_.back());
  }
  static double at_mean_rate(double us, double other_us) { return 2 / (1 / us + 1 / other_us); }
  static double median(std::array<double, repetitions> times) {
    std::sort(times.begin(), times.end());
    return times[repetitions / 2];
  }
  std::size_t index(Direction direction) const { return direction == Direction::out ? 0 : 1; }

  Status copy(Direction direction, std::uint64_t bytes, std::uint64_t offset) {
    const StreamHandle stream = streams_[index(direction)];
    const Address there = memory_.device + offset;
    std::byte* const here = memory_.host + offset;
    return direction == Direction::out ? device_.copy_out(here, there, bytes, stream)
                                       : device_.copy_in(there, here, bytes, stream);
  }

  // A copy that leads keeps the stream busy until the measured one is submitted: else the host's time to do
  // so would be measured too. `room`: how much of the memory from `offset` on it may use.
  Status submit(Direction direction, std::uint64_t bytes, std::uint64_t offset, std::uint64_t room) {
    const StreamHandle stream = streams_[index(direction)];
    if (Status s = copy(direction, std::min(room, std::max(bytes, lead_bytes)), offset); !s) return s;
    if (Status s = device_.record(events_[2 * index(direction)], stream); !s) return s;
    if (Status s = copy(direction, bytes, offset); !s) return s;
    return device_.record(events_[2 * index(direction) + 1], stream);
  }

  Status finish(Direction direction, double& microseconds) {
    const EventHandle begin = events_[2 * index(direction)], end = events_[2 * index(direction) + 1];
    if (Status s = device_.synchronize(end); !s) return s;
    const auto elapsed = device_.elapsed_us(begin, end);
    if (!elapsed) return elapsed.error();
    microseconds = *elapsed;
    return Done{};
  }

  Device& device_;
  StreamHandle streams_[2];
  ProbeMemory memory_;
  std::vector<EventHandle> events_;  // begin and end, out and in; the end of all
};

}  // namespace

Result<std::vector<LinkSample>> probe_link(Device& device, StreamHandle out, StreamHandle in,
                                           const ProbeMemory& memory) {
  if (out == in) return Error{ErrorCode::invalid_argument, "the link probe needs a stream per direction"};
  if (memory.bytes < sizes[0])
    return Error{ErrorCode::invalid_argument, "the link probe needs at least 64 KiB of memory"};
  Probe probe(device, out, in, memory);
  if (Status s = probe.prepare(); !s) return s.error();
  std::vector<LinkSample> samples;
  for (const std::uint64_t bytes : sizes) {
    if (bytes > memory.bytes) break;
    // In first: what is copied out has been written.
    for (const Direction direction : {Direction::in, Direction::out}) {
      if (Status s = probe.alone(bytes, direction, samples); !s) return s.error();
    }
    if (2 * bytes > memory.bytes) continue;
    if (Status s = probe.together(bytes, samples); !s) return s.error();
  }
  return samples;
}

}  // namespace pooch::cupti

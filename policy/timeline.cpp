// The clock of the simulator: who waits for whom, given the order of things.
#include "policy/timeline.h"

#include <algorithm>
#include <limits>

namespace pooch::policy {
namespace {

constexpr std::int32_t steps_between = 32;  // checkpoints

}  // namespace

double Simulator::handles_us(std::uint64_t bytes) const {
  if (rules_.placed) return 0;
  const auto pieces = [bytes](std::uint64_t size) { return static_cast<double>((bytes + size - 1) / size); };
  return pieces(rules_.chunk_bytes) * rules_.chunk_us + pieces(rules_.handle_bytes) * rules_.handle_us;
}

// Both directions at once are slower than each alone. The end of the earlier copy is known by now, so the
// later one bears the loss of both, for as long as the other direction is busy.
double Simulator::copy_us(const LinkFit& link, std::uint64_t bytes, double start,
                          double other_busy_until) const {
  const double alone = link.us(bytes), slower = 1 / link.share_beside();
  if (slower <= 1 || other_busy_until <= start) return alone;
  const double shared = std::min(alone, (other_busy_until - start) / slower);
  return alone + shared * (slower - 1);
}

// Grants memory to the fetches of this step; each starts when the link, its own eviction and the memory
// allow.
void Simulator::start_fetches(Clock& clock, std::int32_t step) {
  for (; clock.next_fetch < schedule_.fetches.size(); ++clock.next_fetch) {
    const Fetch& fetch = schedule_.fetches[clock.next_fetch];
    if (fetch.trigger != step) break;
    double ready = clock.compute;
    std::uint64_t leaving = clock.leaving;
    for (std::size_t i = clock.evictions_done; i < evictions_.size(); ++i) {
      const Flight& flight = evictions_[i];
      if (schedule_.live[step] + leaving <= rules_.cap) break;
      ready = std::max(ready, flight.end);
      leaving -= std::min(leaving, flight.bytes);
    }
    ready = std::max(ready, left_at_[fetch.map]);
    if (!rules_.placed) {
      if (fetch.squeezed || ready > clock.compute)
        clock.host = std::max(clock.host, ready + rules_.launch_us);
      clock.host += handles_us(fetch.bytes);
      ready = std::max(ready, clock.host);
    }
    const bool late = ready > clock.in;
    const double start = std::max(clock.in, ready);
    const double us = copy_us(problem_.in, fetch.bytes, start, clock.out);
    clock.in = start + us;
    clock.in_busy += us;
    clock.reserved += fetch.bytes;
    arrivals_.push_back(
        {start, clock.in, fetch.bytes, static_cast<std::int32_t>(fetch.map), fetch.deadline, late});
    if (clock.trace)
      clock.trace->spans.push_back(
          {Engine::in, start, clock.in, nowhere, static_cast<std::int32_t>(fetch.map)});
  }
}

// Compute takes its own memory; that of fetches which have not started yet is still free.
void Simulator::wait_for_memory(Clock& clock, std::int32_t step) {
  const auto settle = [&] {
    for (; clock.evictions_done < evictions_.size() && evictions_[clock.evictions_done].end <= clock.compute;
         ++clock.evictions_done) {
      clock.leaving -= evictions_[clock.evictions_done].bytes;
    }
    for (; clock.arrivals_started < arrivals_.size() &&
           arrivals_[clock.arrivals_started].start <= clock.compute;
         ++clock.arrivals_started) {
      clock.reserved -= arrivals_[clock.arrivals_started].bytes;
    }
  };
  settle();
  // What the iteration before left to leave delays the fetches that are granted at once, not the first op.
  std::uint64_t at_once = 0;
  for (const Fetch& fetch : schedule_.fetches) {
    if (step > 0 || fetch.trigger > 0) break;
    at_once += fetch.bytes;
  }
  while (clock.evictions_done < evictions_.size() &&
         schedule_.live[step] + clock.leaving > rules_.cap + clock.reserved + at_once) {
    const Flight& flight = evictions_[clock.evictions_done];
    if (clock.trace) {
      clock.trace->stalls.push_back(
          {Stall::Cause::memory, schedule_.steps[step].segment, flight.map, flight.end - clock.compute});
    }
    clock.compute = flight.end;
    if (!rules_.placed) clock.host = std::max(clock.host, flight.end) + handles_us(flight.bytes);
    settle();
  }
}

void Simulator::wait_for_fetches(Clock& clock, std::int32_t step) {
  for (; clock.waited < arrivals_.size() && arrivals_[clock.waited].deadline <= step; ++clock.waited) {
    const Flight& flight = arrivals_[clock.waited];
    if (flight.end <= clock.compute) continue;
    if (clock.trace) {
      clock.trace->stalls.push_back({flight.late ? Stall::Cause::fetch_late : Stall::Cause::fetch,
                                     schedule_.steps[step].segment, flight.map, flight.end - clock.compute});
    }
    clock.compute = flight.end;
  }
}

void Simulator::copy_out(Clock& clock, const Choice& choice, std::uint32_t map, double ready) {
  for (std::uint64_t left = choice.swapped(problem_, map), bytes; left > 0; left -= bytes) {
    bytes = piece(map, left);
    const double start = std::max(clock.out, ready), us = copy_us(problem_.out, bytes, start, clock.in);
    clock.out = start + us;
    clock.out_busy += us;
    clock.leaving += bytes;
    left_at_[map] = clock.out;
    evictions_.push_back({start, clock.out, bytes, static_cast<std::int32_t>(map), nowhere, false});
    if (clock.trace)
      clock.trace->spans.push_back({Engine::out, start, clock.out, nowhere, static_cast<std::int32_t>(map)});
  }
}

// What the iteration before left and this one needs later.
void Simulator::evict_what_begins_away(Clock& clock, const Choice& choice) {
  for (const std::uint32_t map : problem_.arriving)
    if (choice.of[map] == Class::swap) copy_out(clock, choice, map, 0);
}

void Simulator::evict(Clock& clock, const Choice& choice, std::int32_t segment) {
  for (const std::uint32_t map : problem_.by_leave[segment]) {
    if (choice.of[map] != Class::keep && !rules_.placed) clock.host += handles_us(problem_.maps[map].bytes);
    if (choice.of[map] != Class::swap || problem_.maps[map].clean) continue;
    const double leaves = rules_.eviction_beside ? clock.op_start : clock.compute;
    copy_out(clock, choice, map, leaves);
    if (!rules_.eviction_blocks || clock.out <= clock.compute) continue;
    if (clock.trace) {
      clock.trace->stalls.push_back(
          {Stall::Cause::memory, segment, static_cast<std::int32_t>(map), clock.out - clock.compute});
    }
    clock.compute = clock.out;
  }
}

void Simulator::host_copies(Clock& clock, std::int32_t segment) {
  for (; clock.next_copy < problem_.copies.size() && problem_.copies[clock.next_copy].segment <= segment;
       ++clock.next_copy) {
    const HostCopy& copy = problem_.copies[clock.next_copy];
    if (copy.ahead) continue;
    double& engine = copy.to_device ? clock.in : clock.out;
    const double start = std::max(engine, clock.compute);
    engine = start + copy.us;
    if (copy.blocks_compute) clock.compute = engine;
    if (copy.awaited != nowhere) clock.awaited.push_back({copy.awaited, engine});
  }
  for (const auto& [reader, end] : clock.awaited) {
    if (reader == segment) clock.compute = std::max(clock.compute, end);
  }
}

// What the program brings ahead of an iteration comes in behind the last fetch of the one before. All are
// alike, so it is the next one's here; that cannot begin without it.
void Simulator::copies_for_the_next(Clock& clock) const {
  for (const HostCopy& copy : problem_.copies) {
    if (!copy.ahead) continue;
    double& engine = copy.to_device ? clock.in : clock.out;
    engine = std::max(engine, clock.host) + copy.us;
    clock.compute = std::max(clock.compute, engine);
  }
}

void Simulator::keep_time(const Choice& choice, Trace* trace, double most_us, Outcome& outcome) {
  if (run_clock(resume(choice, trace), choice, trace, most_us, outcome))
    begin_with_what_leaves(choice, trace, most_us, outcome);
}

// What is still on its way out at the end of the iteration delays the next one. All are alike, so that is
// this one.
void Simulator::begin_with_what_leaves(const Choice& choice, Trace* trace, double most_us, Outcome& outcome) {
  std::vector<Flight> leaving;
  for (const Flight& flight : evictions_)
    if (flight.end > outcome.us) leaving.push_back(flight);
  if (leaving.empty()) return;
  // Later runs are compared with how this one went without.
  first_.checkpoints.swap(checkpoints_);
  first_.evictions.swap(evictions_);
  first_.arrivals.swap(arrivals_);
  checkpoints_.clear();
  evictions_.clear();
  arrivals_.clear();
  left_at_.assign(problem_.maps.size(), 0);
  Checkpoint from;
  for (Flight& flight : leaving) {
    flight.start -= outcome.us, flight.end -= outcome.us;
    from.clock.out = left_at_[flight.map] = flight.end;
    from.clock.leaving += flight.bytes;
    evictions_.push_back(flight);
  }
  if (trace != nullptr) *trace = {};
  from.clock.trace = trace;
  evict_what_begins_away(from.clock, choice);
  run_clock(from, choice, trace, most_us, outcome);
  checkpoints_.swap(first_.checkpoints);
  evictions_.swap(first_.evictions);
  arrivals_.swap(first_.arrivals);
  first_.checkpoints.clear();
}

// Whether the clock stands as it did at this step of the first run: then all goes on as it did.
bool Simulator::has_caught_up(const Clock& clock, std::int32_t step) const {
  const auto index = static_cast<std::size_t>(step / steps_between);
  if (index >= first_.checkpoints.size()) return false;
  const Clock& before = first_.checkpoints[index].clock;
  return clock.compute == before.compute && clock.out == before.out && clock.in == before.in &&
         clock.host == before.host && clock.leaving == before.leaving && clock.reserved == before.reserved;
}

// Without stalls, step i starts at starts_[i]; stalls only add up. False: it ended ahead of time, with the
// outcome as it was where it caught up with the first run, or too late.
bool Simulator::run_clock(Checkpoint from, const Choice& choice, Trace* trace, double most_us,
                          Outcome& outcome) {
  Clock& clock = from.clock;
  clock.trace = trace;
  const auto count = static_cast<std::int32_t>(schedule_.steps.size());
  const double least_us = starts_[count - 1] + schedule_.steps[count - 1].us;
  const double most_stalls = most_us - least_us;
  for (std::int32_t i = from.step; i < count; ++i) {
    if (i % steps_between == 0 && trace == nullptr && has_caught_up(clock, i)) return false;
    if (i % steps_between == 0 && (checkpoints_.empty() || checkpoints_.back().step < i))
      checkpoints_.push_back({i, clock, evictions_.size(), arrivals_.size()});
    const Step& step = schedule_.steps[i];
    const bool own = step.replay == nowhere;
    if (own) host_copies(clock, step.segment);
    wait_for_memory(clock, i);
    start_fetches(clock, i);
    wait_for_fetches(clock, i);
    if (clock.host > clock.compute) {
      if (trace)
        trace->stalls.push_back(
            {Stall::Cause::host, step.segment, nowhere, clock.host + rules_.launch_us - clock.compute});
      clock.compute = clock.host + rules_.launch_us;
    }
    const double start = clock.op_start = clock.compute;
    if (start - starts_[i] > most_stalls) {
      outcome.us = least_us + (start - starts_[i]);
      return false;
    }
    clock.compute += step.us;
    if (trace) {
      trace->spans.push_back({Engine::compute, start, clock.compute,
                              own ? problem_.segments[step.segment].first : step.replay, step.map});
    }
    if (own) evict(clock, choice, step.segment);
  }
  host_copies(clock, problem_.last_segment() + 1);
  copies_for_the_next(clock);
  outcome.us = clock.compute;
  outcome.out_busy_us = clock.out_busy;
  outcome.in_busy_us = clock.in_busy;
  return true;
}

Outcome Simulator::run(const Choice& choice, Trace* trace) {
  constexpr double forever = std::numeric_limits<double>::infinity();
  if (trace) *trace = {};
  return run_within(choice, forever, 0, trace);
}

// Most choices are too dear in their replays alone, or in the memory that they hold before anything is
// fetched early. That is known long before the clock has run.
Outcome Simulator::run_within(const Choice& choice, double most, double per_excess_byte, Trace* trace) {
  const auto excess = [&](std::uint64_t bytes) { return bytes > rules_.cap ? bytes - rules_.cap : 0; };
  const auto dear = [&](const Outcome& outcome) {
    return outcome.us + per_excess_byte * static_cast<double>(outcome.excess) > most;
  };
  Outcome outcome;
  outcome.us = lay_out(choice);
  if (dear(outcome)) return outcome;
  account(choice);
  outcome.excess = excess(*std::max_element(schedule_.live.begin(), schedule_.live.end()));
  if (dear(outcome)) return outcome;
  place_fetches();
  outcome.peak = schedule_.peak;
  outcome.replay_us = schedule_.replay_us;
  outcome.excess = excess(schedule_.peak);
  if (!schedule_.possible) outcome.excess = std::max(outcome.excess, ~std::uint64_t{0} / 4);
  keep_time(choice, trace, most - per_excess_byte * static_cast<double>(outcome.excess), outcome);
  return outcome;
}

}  // namespace pooch::policy

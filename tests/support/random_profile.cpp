#include "tests/support/random_profile.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/pages.h"
#include "tests/support/random_phase.h"

namespace pooch::test {
namespace {

// The peak of what is allocated.
std::uint64_t need_of(const PhaseProfile& phase) {
  std::uint64_t now = 0;
  for (const ProfileBuffer& buffer : phase.buffers) now += buffer.from == outside ? buffer.bytes : 0;
  std::uint64_t peak = now;
  for (const MemoryEvent& event : phase.memory) {
    const std::uint64_t bytes = phase.buffers[event.buffer].bytes;
    now = event.allocated ? now + bytes : now - bytes;
    peak = std::max(peak, now);
  }
  return peak;
}

void add_sites(Profile& profile, Dice& dice) {
  profile.modules = {{"/usr/bin/train", "0123abcd"}, {"/usr/lib/libtensors.so.2", ""}, {"", ""}};
  for (std::uint64_t i = 0; i < 5; ++i) {
    CallSite site;
    for (std::uint32_t module = 0; module < profile.modules.size(); ++module)
      site.frames.push_back({module, (i + 1) << (4 * module + 8)});
    if (dice.one_in(2)) site.python = {"/home/me/train.py:12 step", "/home/me/train.py:40 <module>"};
    profile.sites.push_back(site);
  }
  for (PhaseProfile& phase : profile.phases)
    for (std::size_t p = 0; p < phase.ops.size(); ++p)
      phase.ops[p].site = static_cast<std::uint32_t>(p % (profile.sites.size() + 1));
}

// For every convolution one of two forms; it ran with one of the algorithms, or with none of them.
void add_trials(Profile& profile) {
  profile.trials = {{{{"gemm", 400, 0}, {"winograd", 250, 3 * MiB}, {"fft", 180, 40 * MiB}}},
                    {{{"algo_0", 300, 0}, {"algo_1", 300, 6 * MiB}}}};
  std::uint32_t number = 0;
  for (PhaseProfile& phase : profile.phases) {
    for (ProfileOp& op : phase.ops) {
      if (op.kind > OpKind::conv_backward_filter) continue;
      op.trials = ++number % 2 + 1;
      op.algorithm = number % static_cast<std::uint32_t>(profile.trials[op.trials - 1].algorithms.size() + 1);
    }
  }
}

}  // namespace

PhaseProfile with_operands(PhaseProfile phase) {
  for (ProfileOp& op : phase.ops) {
    std::set<std::uint32_t> buffers(op.scratch.begin(), op.scratch.end());
    for (const auto* list : {&op.reads, &op.writes})
      for (const std::uint32_t v : *list) buffers.insert(phase.versions[v].buffer);
    op.operands.assign(buffers.begin(), buffers.end());
  }
  return phase;
}

void add_places(Profile& profile) {
  const auto add_range = [&](const ProfileBuffer& buffer) {
    profile.ranges.push_back({round_up(buffer.bytes, page), buffer.until == outside});
    return static_cast<std::uint32_t>(profile.ranges.size() - 1);
  };
  for (PhaseProfile& phase : profile.phases) {
    phase = with_operands(std::move(phase));
    for (std::size_t b = 0; b < phase.buffers.size(); ++b) {
      ProfileBuffer& buffer = phase.buffers[b];
      if (!buffer.managed) continue;
      buffer.ranges = {add_range(buffer)};
      if (b % 7 == 0) buffer.ranges.push_back(add_range(buffer));
    }
    if (!phase.ops.empty()) phase.ops.front().operands.push_back(no_buffer);
  }
}

Profile random_profile(std::size_t ops, std::uint64_t seed) {
  Dice dice(mix(seed, ops));
  Profile profile;
  profile.device = "v100-pcie3";
  profile.device_bytes = 16 * GiB;
  profile.host_budget_bytes = 64 * GiB;
  profile.policy = dice.one_in(2) ? "demand" : "keep";
  profile.timer = dice.one_in(2) ? "cupti" : "events";
  for (std::uint64_t bytes = 2 * MiB; bytes <= 128 * MiB; bytes *= 8) {
    for (const bool to_device : {false, true}) {
      for (const bool both : {false, true})
        profile.link.push_back(
            {to_device, bytes, 10 + static_cast<double>(bytes) / (both ? 9e3 : 12e3), both});
    }
  }
  for (const std::uint32_t handles : {1, 8}) profile.moves.push_back({handles, 2 * MiB, 3 + 62.5 * handles});
  profile.launch_us = 4.25;
  profile.outside_bytes = 300 * MiB;
  const bool in_iteration = seed % 4 != 0;
  profile.phases.push_back(PhaseBuilder(ops, dice, true, in_iteration).build());
  if (seed % 3 == 0) profile.phases.push_back(PhaseBuilder(ops / 4, dice, false, in_iteration).build());
  if (seed % 2 == 1) add_sites(profile, dice), add_trials(profile);
  for (const PhaseProfile& phase : profile.phases) {
    profile.need_bytes = std::max(profile.need_bytes, need_of(phase));
    profile.iterations += phase.seen;
    profile.ops += phase.seen * phase.ops.size();
  }
  profile.cap_bytes = profile.need_bytes / 2;
  add_places(profile);
  return profile;
}

}  // namespace pooch::test

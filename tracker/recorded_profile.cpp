#include "tracker/recorded_profile.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tracker/layers.h"
#include "tracker/phase_profile.h"
#include "tracker/tracker.h"

namespace pooch::tracker {
namespace {

// The latest of so many iterations of a phase is described: to the first, parameters that were just copied in
// look like a batch.
constexpr int enough = 4;

class Rerun {
 public:
  void operator()(const RecordedAllocation& a) {
    tracker_.allocated(a.address, a.bytes, a.managed, a.by_program);
  }
  void operator()(const RecordedFree& free) { tracker_.freed(free.address); }
  void operator()(const Call& call) {
    tracker_.resolve(call, op_);
    tracker_.launched(op_);
    for (const Iteration& iteration : tracker_.take_completed()) {
      Known& known = phases_[iteration.phase];
      if (known.described == enough) continue;
      ++known.described;
      known.profile = describe_iteration(tracker_.log(), iteration.start, iteration.end,
                                         tracker_.iterations().likeness());
    }
  }

  void fill(Profile& profile) {
    profile.need_bytes = tracker_.allocations().need_bytes();
    profile.iterations = tracker_.iterations().count();
    profile.ops = tracker_.ops();
    for (auto& [index, known] : phases_) {
      const Phase& phase = tracker_.iterations().phase(index);
      if (phase.seen == 0) continue;  // what was held to be an iteration went on
      known.profile.id = fmt::format("{:016x}", phase.id);
      known.profile.seen = phase.seen;
      known.profile.graph = build_layers(known.profile);
      profile.phases.push_back(std::move(known.profile));
    }
    const auto weight = [](const PhaseProfile& p) { return p.ops.size() * p.seen; };
    std::stable_sort(profile.phases.begin(), profile.phases.end(),
                     [&](const PhaseProfile& a, const PhaseProfile& b) { return weight(a) > weight(b); });
  }

 private:
  struct Known {
    PhaseProfile profile;
    int described = 0;
  };

  Tracker tracker_;
  Op op_;
  std::map<PhaseIndex, Known> phases_;
};

}  // namespace

Result<Profile> profile_of(RecordingReader& recording) {
  Rerun rerun;
  for (;;) {
    const auto record = recording.next();
    if (!record) return record.error();
    if (!*record) break;
    std::visit(rerun, **record);
  }
  Profile profile;
  profile.device = recording.session().device;
  profile.device_bytes = recording.session().device_bytes;
  profile.cap_bytes = recording.session().cap_bytes;
  profile.host_budget_bytes = recording.session().host_budget_bytes;
  profile.policy = recording.session().policy;
  rerun.fill(profile);
  return profile;
}

}  // namespace pooch::tracker

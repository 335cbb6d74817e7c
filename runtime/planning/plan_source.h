// Where plans come from: the file of POOCH_PLAN, the cache, or a planner process that works beside the
// program.
//
//   request(phase) ─▶ POOCH_PLAN names it? ─▶ in the cache? ─▶ `pooch plan` is started ─▶ poll(phase): a plan
//                          │ ready               │ ready             │ fails, or takes too long
//                          ▼                     ▼                   ▼
//                       poll(phase): the plan                     one warning; the phase has no plan
//
// POOCH_PLAN serves its own phase under every policy; other phases get plans as without it, where the policy
// is a planned one. Nothing here is an error for the program. The session's mutex guards it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/config.h"
#include "core/plan.h"
#include "core/profile.h"
#include "runtime/planning/given_plan.h"
#include "runtime/planning/plan_cache.h"
#include "runtime/planning/planner.h"

namespace pooch::runtime {

struct PlanLimits {
  unsigned seconds = 60;            // that a planner may take
  unsigned failures = 3;            // of planners in a row, then no more are started
  std::string library_folder = {};  // where `libpooch.so` lies; empty: where this code is
};

// How a phase is to be planned.
struct PlanWish {
  std::string structure = {};  // the structure_of(phase) that the plan must have; empty: any
  std::uint64_t reserve = 0;   // bytes of the cap that the plan must leave free
  bool placed = true;          // policy::PlanRequest's
  // Placed: bytes for its layout; plans of other phases that share it.
  std::uint64_t room = 0;
  std::vector<const Plan*> beside = {};
  bool lay_out = false;      // POOCH_PLAN's plan is to have a layout
  bool fresh = false;        // plans in the cache are outdated
  bool provisional = false;  // the plan is not stored in the cache
  bool optional = false;     // there is another plan: failure is only logged, at info
};

class PlanSource {
 public:
  using Limits = PlanLimits;
  using Wish = PlanWish;

  // Error: invalid_argument, POOCH_PLAN names no plan, or one for more memory than there is: the one line to
  // end the program with.
  static Result<std::unique_ptr<PlanSource>> open(const Config& config, PlanTarget target);
  static Result<std::unique_ptr<PlanSource>> open(const Config& config, PlanTarget target, Limits limits);
  ~PlanSource();
  PlanSource(const PlanSource&) = delete;
  PlanSource& operator=(const PlanSource&) = delete;

  // A phase is known: looks for its plan. `profile` is called only if a planner must work; then the answer is
  // true. Never waits; further requests for the same phase do nothing.
  bool request(const std::string& phase, const std::function<Profile()>& profile, const Wish& wish);
  // A remark to log once POOCH_PLAN's plan is followed. Once; then empty.
  std::string take_remark() { return given_.take_remark(); }
  // Whether POOCH_PLAN is the phase's plan, whatever is wished for.
  bool given(const std::string& phase) const { return given_.is_for(phase); }
  // The phase may be requested again. Not while a planner is at work for it.
  void forget(const std::string& phase);
  // The phase's plan, once, as soon as there is one. Never waits.
  std::optional<Plan> poll(const std::string& phase);
  // Whether poll(phase) may still bring one.
  bool pending(const std::string& phase) const;
  // Waits until poll(phase) has its answer, as long as the planner may take at most.
  void settle(const std::string& phase) { (void)settle(phase, std::chrono::hours(1)); }
  // ... and no longer than `most`. False: it has none yet.
  bool settle(const std::string& phase, std::chrono::steady_clock::duration most);
  // At the program's end: ends planners that are still at work.
  void abandon();

 private:
  struct Entry {
    PlanIdentity identity;
    bool provisional = false, optional = false, laid_out = false;
    std::optional<PlannerRun> work;
    std::optional<Plan> plan;
  };

  PlanSource(const Config& config, PlanTarget target, const Limits& limits);
  std::optional<Plan> find_cached(const PlanIdentity& identity) const;
  void advance(const std::string& phase, Entry& entry);
  Result<Plan> result_of(const Entry& entry) const;
  void keep(const Entry& entry, const Plan& plan);
  void fail(const std::string& phase, const Entry& entry, const std::string& why);
  void warn_once(const std::string& what, const std::string& text);

  const Policy policy_;
  const PlanTarget target_;
  const unsigned most_failures_;
  PlanCache cache_;
  std::optional<Planner> planner_;  // where plans may be made
  GivenPlan given_;
  std::map<std::string, Entry> entries_;
  std::set<std::string> warned_;
  unsigned failures_ = 0;  // of planners, in a row
};

}  // namespace pooch::runtime

// Drops content that calls of the program can make again, where no plan decides, and makes it again before it
// is needed, as DTR does (Kirisame et al., Dynamic Tensor Rematerialization, 2021).
//
// A buffer's content is dropped as a whole, and comes back as a whole before
//   an op touches it,
//   an op changes what its calls read, or that is freed,
//   an op runs that may touch what it does not name,
//   a plan begins.
// What its calls read may have been dropped as well, and is made first.
//
// Proven as in plans (verification.h): the first two times by a digest and a copy on the host, later samples
// by digest.
//
// The session's mutex guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/call.h"
#include "core/function_ref.h"
#include "runtime/execution/executor_parts.h"
#include "runtime/execution/kept_call.h"
#include "runtime/execution/op_costs.h"
#include "runtime/execution/recipes.h"
#include "runtime/execution/replay_memory.h"
#include "runtime/execution/verification.h"
#include "runtime/memory/held.h"
#include "runtime/observe/trace.h"
#include "runtime/placement/remaker.h"

namespace pooch::runtime {

// As long as it lives, the buffer is not dropped.
class Wanted {
 public:
  Wanted(std::multiset<AllocationId>& all, AllocationId buffer) : all_(&all), mine_(all.insert(buffer)) {}
  ~Wanted() {
    if (all_ != nullptr) all_->erase(mine_);
  }
  Wanted(Wanted&& from) noexcept : all_(std::exchange(from.all_, nullptr)), mine_(from.mine_) {}
  Wanted& operator=(Wanted&&) = delete;

 private:
  std::multiset<AllocationId>* all_;
  std::multiset<AllocationId>::iterator mine_;
};

class Remaking final : public Remaker {
 public:
  // Of `parts` all is used but the verification, which is of plans: what is done here has its own proofs.
  // `host_budget`: bytes that the arena may have.
  Remaking(const ExecutorParts& parts, Verify how, std::uint64_t host_budget, const VerificationParts& proves)
      : parts_(parts),
        proofs_(how, host_budget, proves),
        costs_(parts.device),
        memory_(parts.temporaries, parts.residency, parts.departures) {
    proofs_.begin(trust_, 0);
  }
  // From now on shows what is done in the timeline; nullptr: in none.
  void show_in(Trace* trace) { trace_ = trace; }

  // Makes again what the op must find. Adds to `wanted` what has to stay so until the op is launched. May
  // release `held`. Errors: out_of_memory, device; a value is doubtful. The op must not be launched then.
  Status before(const Call& call, const tracker::Op& op, std::vector<Wanted>& wanted, Held& held);
  // Whether that is to be called (again).
  bool lacks(const Call& call, const tracker::Op& op) const;
  // Around the launch of any op. Until it has ended nothing is dropped: what the call is changing may be what
  // a buffer is made from. `timed`: it may be a recipe's, and no plan covers it. `ended` gets what `begun`
  // returned.
  std::optional<std::uint64_t> begun(const Call& call, const tracker::Op& op, bool timed);
  void ended(std::optional<std::uint64_t> number, const Call& call);
  // It was launched, and may have failed.
  void note_launch(const tracker::Op& op, Mark mark);
  // Whether the device has done all that was launched before, while the host waited for copies
  // (`waits_before`: StreamOrder::own_waits before it did), or while what the op uses has not arrived.
  bool ran_dry(const std::vector<ChunkUse>& uses, std::uint64_t waits_before) const;
  // Such an op was launched. `ran_dry`: as OpCosts has it.
  void launched(const Call& call, const tracker::Op& op, const std::vector<ChunkUse>& uses, bool ran_dry);
  // It was not, or failed: what it changes may be anything.
  void failed(const tracker::Op& op) { recipes_.launched(op, nullptr), forget_lost(); }
  // From now on content may be dropped, or may not.
  void allow(bool allowed) { allowed_ = allowed; }

  // The allocation is about to end. True: calls that read it were launched just now. Errors: as for `before`.
  Result<bool> freeing(AllocationId allocation, Held& held);
  // Ops are launched that are not reported here.
  void look_away();
  // Makes everything again, and forgets all recipes: what follows is not reported here. Errors: as for
  // `before`.
  Status make_all(Held& held);

  Result<std::uint64_t> drop(const Chunk& chunk, std::uint64_t gathering) override;
  void needed_for(AllocationId buffer, std::vector<Expected>& into) const override;

  std::uint64_t replays() const { return replays_; }
  Verification::Counts proofs() const { return proofs_.counts(); }
  // As Verification has it.
  bool give_up_memory() { return proofs_.give_up_memory(); }

 private:
  std::optional<AllocationId> next_lacking(const Call& call, const tracker::Op& op) const;
  bool can_drop(const Recipe& recipe, std::uint64_t gathering) const;
  std::optional<double> us_to_make(const Recipe& recipe) const;
  std::uint32_t depth_below(const Recipe& recipe) const;
  std::uint32_t depth_above(const Recipe& recipe) const;
  static std::uint64_t bytes_to_copy(const Recipe& recipe);
  Result<std::uint64_t> begin_leaving(Recipe& recipe);
  void note_drop(std::uint32_t number);
  void forget_lost();
  Status make_while(FunctionRef<std::optional<AllocationId>()> next, std::optional<StreamHandle> stream,
                    std::vector<Wanted>& wanted, Held& held);
  Status make(AllocationId buffer, StreamHandle stream, Held& held);
  Status make_inputs(AllocationId buffer, StreamHandle stream, Held& held);
  Status run(AllocationId buffer, const KeptCall& call, StreamHandle stream, Held& held);
  Result<Range*> place_outputs(AllocationId buffer, const KeptCall& call);
  Status settle(Verification::Late late, Held& held);

  const ExecutorParts parts_;
  Verification proofs_;
  Recipes recipes_;
  OpCosts costs_;
  ReplayMemory memory_;
  MapTrust trust_;
  Turn turn_;  // one thread at a time makes something again
  std::multiset<AllocationId> wanted_;
  bool allowed_ = false;
  int launching_ = 0;                        // calls on their way
  std::uint64_t largest_ = 0, replays_ = 0;  // bytes that an op needed at once
  Trace* trace_ = nullptr;
  std::optional<Mark> latest_op_;
  ReplayCall call_;  // reused storage
};

}  // namespace pooch::runtime

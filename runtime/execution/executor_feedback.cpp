// Followed plans are watched, and their prefetches moved.
#include <algorithm>

#include "core/log.h"
#include "runtime/execution/executor.h"

namespace pooch::runtime {

// Reads what the iteration that was watched last has shown. True: the phase has another script now.
bool Executor::learn(tracker::PhaseIndex phase) {
  if (watched_ != phase) return false;
  auto waits = waits_.collect();
  if (!waits) return false;
  watched_.reset();
  AdoptedPlan& adopted = *book_.find(phase);
  if (!adopted.feedback.note(std::move(*waits))) return false;
  auto next = adopted.feedback.next(*adopted.script, clock_.median_ms(phase));
  if (!next) return false;
  auto script = Script::compile(next->plan, adopted.known.profile, adopted.out_us_per_byte);
  if (!script) {
    adopted.feedback.end();
    return false;
  }
  const std::string& id = next->plan.phase;
  if (next->moved == 0)
    log::info("phase {}: prefetches start where they did before; earlier made iterations longer", id);
  else
    log::info("phase {}: {} prefetches start earlier; up to {:.0f} us were waited for one", id, next->moved,
              next->longest_us);
  tally_.counts.moved_prefetches += next->moved;
  tally_.counts.undone_moves += next->moved == 0;
  book_.replace(adopted, std::move(*script));
  clock_.forget(phase);
  return true;
}

// An iteration has followed its plan to the end. Those that prove what is made again keep more than others.
// What a plan takes is known to a page or so: little that is missing is no reason for another.
void Executor::note_shortage() {
  AdoptedPlan& adopted = *followed();
  const bool asked = tally_.asked_bytes() > parts_.pool.cap() / 1024;
  adopted.short_iterations = asked && !proving(adopted) ? adopted.short_iterations + 1 : 0;
}

std::optional<double> Executor::take_shortage(tracker::PhaseIndex phase) {
  constexpr int in_a_row = 3;
  AdoptedPlan* const adopted = book_.find(phase);
  if (adopted == nullptr || adopted->shortage_told || adopted->short_iterations < in_a_row)
    return std::nullopt;
  const auto takes_ms = clock_.median_ms(phase);
  adopted->shortage_told = takes_ms.has_value();
  return takes_ms;
}

bool Executor::proving(const AdoptedPlan& adopted) {
  const MapTrust& trust = adopted.trust;
  return !adopted.script->replays().empty() && (trust.sampling || trust.iterations <= Verification::proofs);
}

// An iteration that follows a plan from its first op on begins. Those that prove what is made again are not
// like others; in alias mode prefetches belong to the layout.
void Executor::begin_watch(tracker::PhaseIndex phase, AdoptedPlan& adopted, StreamHandle stream) {
  if (watched_ || adopted.alias || adopted.feedback.ended() || proving(adopted)) return;
  waits_.watch(iteration_->maps.size(), stream);
  if (waits_.watching()) watched_ = phase;
}

void Executor::give_up_watch() {
  waits_.give_up();
  watched_.reset();
}

// Work that reads these is next in `stream`.
void Executor::note_needed(std::span<const tracker::Operand> operands, StreamHandle stream) {
  if (!waits_.watching()) return;
  for (std::uint32_t map = 0; map < iteration_->maps.size(); ++map) {
    if (!waits_.awaited(map)) continue;
    const auto is_it = [&](const tracker::Operand& o) {
      return o.allocation == iteration_->maps[map].allocation;
    };
    if (std::any_of(operands.begin(), operands.end(), is_it)) waits_.needed(map, stream);
  }
}

}  // namespace pooch::runtime

#include "runtime/observe/substitute_trials.h"

#include <algorithm>
#include <cstring>

#include "core/log.h"

namespace pooch::runtime {

void SubstituteTrials::close() {
  for (const Pass& pass : pending_)
    for (const EventHandle event : {pass.begin, pass.end}) (void)device_.destroy_event(event);
  pending_.clear();
  if (flags_ != nullptr) (void)device_.host_free(reinterpret_cast<std::byte*>(flags_));
  flags_ = nullptr;
  working_ = false;
}

// Nothing more is tried; what was found holds. What was launched may still write to its flags, so they stay.
void SubstituteTrials::fail(const Error& why) {
  working_ = false;
  log::info("what replays make is made by the calls themselves: {}", why.message);
}

bool SubstituteTrials::wants(std::uint64_t key) const {
  if (!working_ || pending_.size() == most_pending) return false;
  const auto known = known_.find(key);
  return known == known_.end() || known->second.launched < most_passes;
}

Status SubstituteTrials::open() {
  if (flags_ != nullptr) return Done{};
  const auto memory = device_.host_allocate(most_pending * sizeof(Flags));
  if (!memory) return memory.error();
  flags_ = reinterpret_cast<Flags*>(*memory);
  for (std::uint32_t slot = 0; slot < most_pending; ++slot) free_slots_.push_back(slot);
  return Done{};
}

void SubstituteTrials::launched(std::uint64_t key, const Substitute& how, std::span<const Access> accesses,
                                StreamHandle stream) {
  if (const auto opened = open(); !opened) return fail(opened.error());
  const auto at = [&](std::uint32_t access) { return accesses[access].address; };
  const auto& o = how.operands;
  const NormaliseCall call{how.how, {at(o.x), at(o.y), at(o.scale), at(o.bias), at(o.mean), at(o.inverse)}};
  Pass pass{key, {}, {}, free_slots_.front()};
  const auto done = launch(call, stream, pass);
  for (const EventHandle event : {pass.begin, pass.end})
    if (!done && event != EventHandle{}) (void)device_.destroy_event(event);
  if (!done) return fail(done.error());
  free_slots_.pop_front();
  pending_.push_back(pass);
  ++known_[key].launched;
  ++passes_;
}

Status SubstituteTrials::launch(const NormaliseCall& call, StreamHandle stream, Pass& pass) {
  for (EventHandle* const event : {&pass.begin, &pass.end}) {
    const auto made = device_.create_timing_event();
    if (!made) return made.error();
    *event = *made;
  }
  std::memset(flags_[pass.slot], 0, sizeof(Flags));
  Status done = device_.record(pass.begin, stream);
  if (done) done = device_.compare(call, &flags_[pass.slot], stream);
  if (done) done = device_.record(pass.end, stream);
  return done;
}

void SubstituteTrials::await() {
  if (working_ && !pending_.empty())
    if (const auto waited = device_.synchronize(pending_.back().end); !waited) return fail(waited.error());
  collect();
}

void SubstituteTrials::collect() {
  while (working_ && !pending_.empty()) {
    const auto finished = device_.finished(pending_.front().end);
    if (!finished) return fail(finished.error());
    if (!*finished) return;
    const Pass pass = pending_.front();
    pending_.pop_front();
    const auto taken = take(pass);
    for (const EventHandle event : {pass.begin, pass.end}) (void)device_.destroy_event(event);
    if (!taken) return fail(taken.error());
  }
}

Status SubstituteTrials::take(const Pass& pass) {
  const auto us = device_.elapsed_us(pass.begin, pass.end);
  if (!us) return us.error();
  Known& known = known_[pass.key];
  known.us = known.ended++ == 0 ? *us : std::min(known.us, *us);
  for (std::size_t f = 0; f < formulas; ++f) known.differs[f] |= flags_[pass.slot][f] != 0;
  free_slots_.push_back(pass.slot);
  return Done{};
}

std::optional<SubstituteFinding> SubstituteTrials::finding(std::uint64_t key) {
  collect();
  const auto found = known_.find(key);
  if (found == known_.end() || found->second.ended == 0) return std::nullopt;
  const Known& known = found->second;
  SubstituteFinding finding{{}, known.us};
  const auto same = std::find(known.differs.begin(), known.differs.end(), false);
  if (same != known.differs.end()) finding.formula = static_cast<Formula>(same - known.differs.begin());
  return finding;
}

}  // namespace pooch::runtime

// Shared memory: what is stored there, and what loads may find.
//
// Where a kernel's ways between barriers are known (phases.h), a load finds what the ways to the last barrier
// left, and all that is stored between the same two barriers, by whichever thread. A store whose place is
// known replaces what it had stored there, for who passes the next barrier. A thread that has ended leaves
// what it stored. Otherwise all that is stored anywhere may be found anywhere.
#include "tools/effects/shared.h"

#include <algorithm>

#include "tools/effects/machine.h"

namespace pooch::effects {
namespace {
constexpr std::size_t most_places = 256;
}

bool join(Values& values, SharedHalves& all, const SharedHalves& more) {
  bool changed = false;
  for (std::size_t half = 0; half < all.size(); ++half) {
    const ValueId both = values.join(all[half], more[half]);
    changed = changed || both != all[half];
    all[half] = both;
  }
  return changed;
}

void SharedContent::store(Values& values, const SharedPlace& at, const SharedHalves& data, bool replaces) {
  const bool keyed = at.known() && (places_.size() < most_places || places_.contains(at));
  SharedHalves& there = places_[keyed ? at : SharedPlace{}];
  if (keyed && replaces)
    there = data;
  else
    (void)effects::join(values, there, data);
}

void SharedContent::join_into(Values& values, SharedHalves& all) const {
  for (const auto& [at, halves] : places_) (void)effects::join(values, all, halves);
}

bool SharedContent::join(Values& values, const SharedContent& other) {
  bool changed = false;
  for (const auto& [at, halves] : other.places_)
    changed = effects::join(values, places_[at], halves) || changed;
  return changed;
}

// Registers that are set once hold the same whenever they are read.
SharedPlace Machine::shared_place(const State& state, const Instruction& one, unsigned count) const {
  const Operand* const memory = memory_operand(one);
  if (!phases_ || memory == nullptr || memory->parts.size() > 2 || element_bytes(one) < 4) return {};
  SharedPlace place{0, 0, memory->number, 4 * count};
  for (std::size_t i = 0; i < memory->parts.size(); ++i) {
    const MemoryPart& part = memory->parts[i];
    const std::uint32_t definition = state.get(State::index(part.reg), guard_).definition;
    if (definition == 0 || part.pair || part.scaled) return {};
    (i == 0 ? place.first : place.second) = definition;
  }
  return place;
}

// Words of 64 bits lie at multiples of 8, so halves that were stored as halves stay apart.
void Machine::store_shared(State& state, unsigned count, const std::vector<Cell>& data,
                           const SharedPlace& place) {
  SharedHalves stored{};
  for (unsigned i = 0; i < data.size(); ++i)
    for (unsigned half = 0; half < stored.size(); ++half) {
      if (count > 1 && half != (i & 1)) continue;
      stored[half] = settles_ ? values_.join(stored[half], data[i].value) : values_.unknown();
    }
  shared_changed_ = join(values_, shared_[region_], stored) || shared_changed_;
  if (phases_) state.shared.store(values_, place, stored, !guard_);
}

ValueId Machine::load_shared(const State& state, unsigned half, unsigned count) {
  SharedHalves all = shared_[region_];
  if (phases_) {
    state.shared_before.join_into(values_, all);
    for (std::size_t region = 0; region < left_.size(); ++region)
      if (phases_->follows(region_, region)) (void)join(values_, all, left_[region]);
  }
  const ValueId found = count > 1 ? all[half] : values_.join(all[0], all[1]);
  if (found == Values::bottom) unset_[region_] = true;
  return found;
}

// A thread ends: what it stored stays for the others.
void Machine::leave_shared(const State& state) {
  if (!phases_) return;
  SharedHalves all{};
  state.shared.join_into(values_, all);
  shared_changed_ = join(values_, left_[region_], all) || shared_changed_;
}

// True: shared memory holds more than it did when the round began. What nobody was seen to store may be
// anything.
bool Machine::settle_shared() {
  if (shared_changed_) return true;
  bool unset = false;
  for (std::size_t region = 0; region < shared_.size(); ++region) {
    if (!unset_[region]) continue;
    for (ValueId& half : shared_[region])
      if (half == Values::bottom) half = values_.unknown(), unset = true;
  }
  return unset;
}

void Machine::step_shared(State& state, const Instruction& one, Action action, unsigned count) {
  const bool matrix = one.name.ends_with("SM") || one.name.starts_with("LDT") || one.name.starts_with("STT");
  const unsigned together = matrix || action == Action::shared_atomic ? 1 : count;
  if (action != Action::shared_load) {
    auto data = data_of(state, one, count);
    if (action == Action::shared_atomic && one.has("CAS"))
      for (const Operand* const operand : sources(one))
        if (operand->kind == OperandKind::reg) data.push_back(source(state, one, *operand, 0));
    const bool whole = action == Action::shared_store && !matrix;
    store_shared(state, together, data, whole ? shared_place(state, one, count) : SharedPlace{});
    if (action == Action::shared_store) return;
  }
  std::vector<Cell> loaded;
  for (unsigned i = 0; i < count; ++i) loaded.push_back({load_shared(state, i & 1, together), 0});
  write(state, one, loaded);
}

}  // namespace pooch::effects

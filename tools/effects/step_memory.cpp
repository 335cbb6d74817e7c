// Loads and stores, and what goes through the stack.
#include <algorithm>

#include "tools/effects/machine.h"

namespace pooch::effects {
namespace {

constexpr std::int64_t slot_bytes = 4, word_bytes = 8;
constexpr unsigned map_bytes = 128;

}  // namespace

void Machine::access(const Address& at, std::size_t instruction, Effect effect) {
  accesses_.touch(values_, instruction, effect, at.low, at.high);
}

void Machine::step_memory(State& state, std::size_t at, Action action) {
  const Instruction& one = code_.instructions[at];
  const unsigned count = register_count(one, action);
  const Operand* const memory = memory_operand(one, action == Action::copy_in ? 1 : 0);
  const auto global = [&](Effect effect) { access(address(state, one, *memory, true), at, effect); };
  const std::vector<Cell> from_memory(count, {values_.of({Origin::loaded}), 0});
  if (action == Action::texture) {
    accesses_.hide(at, "memory behind a texture or a surface");
    write(state, one, from_memory);
    return;
  }
  if (action == Action::cache_control) {
    const bool harmless = memory == nullptr || one.has("IV") || one.has("IVALL") || one.has("PF1") ||
                          one.has("PF1.5") || one.has("PF2") || one.has("WB");
    if (!harmless) global(stores);
    return;
  }
  if (memory == nullptr && action != Action::shared_store) {
    accesses_.lose(at, "an access without an address");
    return;
  }
  switch (action) {
    case Action::load:
      return step_load(state, at, *memory, count);
    case Action::store:
      return step_store(state, at, *memory, count);
    case Action::atomic:
    case Action::reduction:
      step_store(state, at, *memory, count);
      if (action == Action::atomic) write(state, one, from_memory);
      return;
    case Action::copy_in:
      global(loads);
      return store_shared(state, 2, from_memory);
    case Action::bulk_copy:
      return step_bulk(state, at);
    case Action::bulk_reduction:
      global(updates);
      return;
    case Action::tensor_load:
    case Action::tensor_store:
    case Action::tensor_reduction:
      return step_tensor(state, at, action);
    case Action::local_load:
    case Action::local_store:
      return step_local(state, at, action, count);
    default:
      return step_shared(state, one, action, count);
  }
}

// A generic address may be of any memory. What the program's memory gives may be an address again.
void Machine::step_load(State& state, std::size_t at, const Operand& memory, unsigned count) {
  const Instruction& one = code_.instructions[at];
  const Address from = address(state, one, memory, true);
  access(from, at, loads);
  std::vector<Cell> data(count, Cell{});
  const auto add = [&](const std::vector<Cell>& more) {
    for (std::size_t i = 0; i < count; ++i) data[i] = join(values_, data[i], more[i]);
  };
  const Value& high = values_[from.high];
  bool elsewhere = high.alternatives.empty();
  for (const Alternative& alternative : std::vector(high.alternatives)) {
    bool special = false;
    for (const TermId id : alternative.terms) {
      const Origin origin = values_.term(id).origin;
      special = true;
      if (origin == Origin::window) {
        add(window_load(from, one, count));
      } else if (origin == Origin::local_window) {
        add(load_local(state, one, from.symbol, 0, count));
      } else if (origin == Origin::shared_window) {
        for (unsigned half = 0; half < count; ++half)
          data[half] = join(values_, data[half], {load_shared(state, half & 1, count), 0});
      } else {
        special = false;
        break;
      }
    }
    elsewhere = elsewhere || !special;
  }
  if (elsewhere) add(std::vector<Cell>(count, {values_.of({Origin::loaded}), 0}));
  write(state, one, data);
  // Of 32 bytes the second half goes to registers of its own.
  if (!one.has("256")) return;
  Instruction second = one;
  const auto to = std::find_if(second.operands.begin(), second.operands.end(),
                               [](const Operand& o) { return o.kind == OperandKind::reg; });
  if (to != second.operands.end()) second.operands.erase(to);
  write(state, second, std::vector<Cell>(count, {values_.of({Origin::loaded}), 0}));
}

// Parameters, by their generic address.
std::vector<Cell> Machine::window_load(const Address& at, const Instruction& one, unsigned count) {
  const Symbol place = symbols_[at.symbol];
  std::vector<Cell> data;
  const auto bytes = static_cast<std::uint8_t>(element_bytes(one));
  for (unsigned i = 0; i < count; ++i) {
    const bool is_known = place.kind == SymbolKind::window && place.number >= 0;
    if (is_known) {
      data.push_back(parameter(place.number + slot_bytes * i, 0, bytes, one.has("S8") || one.has("S16")));
    } else {
      accesses_.read_all_constants();
      data.push_back({values_.of({Origin::table}), 0});
    }
  }
  return data;
}

// Stores, atomics and reductions, by global or generic addresses.
void Machine::step_store(State& state, std::size_t at, const Operand& memory, unsigned count) {
  const Instruction& one = code_.instructions[at];
  const Address to = address(state, one, memory, true);
  access(to, at, action_of(one) == Action::store ? stores : updates);
  const auto data = data_of(state, one, count);
  if (values_.has(to.high, Origin::local_window)) store_local(state, one, 0, 0, data);
  if (values_.has(to.high, Origin::shared_window)) store_shared(state, count, data);
}

std::vector<Cell> Machine::data_of(const State& state, const Instruction& one, unsigned count) {
  std::vector<Cell> data;
  const Operand* const from = last_register(one);
  for (unsigned i = 0; i < count; ++i) {
    if (from == nullptr)
      data.push_back({values_.unknown(), 0});
    else if (!from->reg)
      data.push_back(known(0));
    else
      data.push_back(state.get(State::index(*from->reg) + i, guard_));
  }
  return data;
}

void Machine::step_local(State& state, std::size_t at, Action action, unsigned count) {
  const Instruction& one = code_.instructions[at];
  const Address where = address(state, one, *memory_operand(one), false);
  if (action == Action::local_load) {
    write(state, one, load_local(state, one, where.symbol, 0, count));
    return;
  }
  store_local(state, one, where.symbol, 0, data_of(state, one, count));
}

// `symbol` + `offset` is an address within local memory, which is known where it counts from the stack.
void Machine::store_local(State& state, const Instruction& one, SymbolId symbol, std::int64_t offset,
                          const std::vector<Cell>& data) {
  const Symbol place = symbols_[symbol];
  const bool narrow = element_bytes(one) < slot_bytes;
  for (unsigned i = 0; i < data.size(); ++i) {
    if (place.kind != SymbolKind::stack) {
      state.set_any_slot(values_, i & 1, data.size() == 1, data[i].value);
      continue;
    }
    std::int64_t slot = place.number + offset + slot_bytes * i;
    if (!narrow) {
      state.set_slot(values_, slot, data[i], one.guard);
      continue;
    }
    // A part of what is there.
    slot -= ((slot % slot_bytes) + slot_bytes) % slot_bytes;
    const Cell old = state.slot(values_, slot, i & 1);
    state.set_slot(values_, slot, {values_.join(old.value, data[i].value), 0}, one.guard);
  }
}

std::vector<Cell> Machine::load_local(const State& state, const Instruction& one, SymbolId symbol,
                                      std::int64_t offset, unsigned count) {
  const Symbol place = symbols_[symbol];
  const bool narrow = element_bytes(one) < slot_bytes;
  std::vector<Cell> data;
  for (unsigned i = 0; i < count; ++i) {
    if (place.kind != SymbolKind::stack) {
      data.push_back({state.any_slot(values_, i & 1, count == 1), 0});
      continue;
    }
    std::int64_t slot = place.number + offset + slot_bytes * i;
    if (narrow) slot -= ((slot % slot_bytes) + slot_bytes) % slot_bytes;
    const bool upper = ((slot % word_bytes) + word_bytes) % word_bytes >= slot_bytes;
    Cell cell = state.slot(values_, slot, upper ? 1 : 0);
    if (narrow) cell.symbol = 0;
    data.push_back(cell);
  }
  return data;
}

// [shared], [global], bytes or the other way round: S.G or G.S.
void Machine::step_bulk(State& state, std::size_t at) {
  const Instruction& one = code_.instructions[at];
  const auto found = std::find_if(one.modifiers.begin(), one.modifiers.end(),
                                  [](const std::string& m) { return m == "G" || m == "S"; });
  const bool to_global = found != one.modifiers.end() && *found == "G";
  const Operand* const global = memory_operand(one, to_global ? 0 : 1);
  if (found == one.modifiers.end() || global == nullptr) {
    accesses_.lose(at, "a bulk copy that cannot be read");
    return;
  }
  // Within shared memory nothing global is touched, but where what one is the window tells.
  access(address(state, one, *global, true), at, to_global ? stores : loads);
  if (!to_global)
    store_shared(state, 2, {{values_.of({Origin::loaded}), 0}, {values_.of({Origin::loaded}), 0}});
}

// [shared and coordinates], [tensor map].
void Machine::step_tensor(State& state, std::size_t at, Action action) {
  const Instruction& one = code_.instructions[at];
  const Operand* const map = memory_operand(one, 1);
  if (map == nullptr) {
    accesses_.lose(at, "a tensor copy that cannot be read");
    return;
  }
  const Effect effect = action == Action::tensor_load    ? loads
                        : action == Action::tensor_store ? stores
                                                         : updates;
  read_tensor_map(at, effect, address(state, one, *map, true));
  if (action == Action::tensor_load)
    store_shared(state, 2, {{values_.of({Origin::loaded}), 0}, {values_.of({Origin::loaded}), 0}});
}

// What the map that lies there names.
void Machine::read_tensor_map(std::size_t at, Effect effect, const Address& where) {
  const Value& high = values_[where.high];
  const bool parameter =
      !high.alternatives.empty() &&
      std::all_of(high.alternatives.begin(), high.alternatives.end(), [&](const Alternative& alternative) {
        return alternative.terms.size() == 1 && values_.term(alternative.terms[0]).origin == Origin::window;
      });
  if (parameter) {
    accesses_.touch_map(at, effect, where.symbol);
    const Symbol place = symbols_[where.symbol];
    if (place.kind == SymbolKind::window)
      accesses_.read_constant(place.number, map_bytes);
    else
      accesses_.read_all_constants();
  } else {
    accesses_.hide(at, "a tensor map that no parameter is");
    access(where, at, loads);
  }
}

}  // namespace pooch::effects

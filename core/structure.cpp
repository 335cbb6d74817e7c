// What makes two profiles of one phase the same program, measurements aside.
#include <fmt/core.h>

#include "core/hash.h"
#include "core/profile.h"

namespace pooch {

std::string structure_of(const PhaseProfile& phase) {
  std::uint64_t state = 0;
  const auto add = [&](auto value) { state = mix(state, static_cast<std::uint64_t>(value)); };
  for (const ProfileBuffer& b : phase.buffers) add(b.bytes), add(b.managed), add(b.from), add(b.until);
  for (const ProfileVersion& v : phase.versions) {
    add(v.buffer), add(v.offset), add(v.bytes), add(v.producer);
    for (const std::int32_t reader : v.readers) add(reader);
  }
  for (const ProfileOp& op : phase.ops) {
    add(op.key), add(op.stream);
    for (const auto* list : {&op.reads, &op.writes, &op.scratch}) {
      add(list->size());
      for (const std::uint32_t index : *list) add(index);
    }
  }
  for (const MemoryEvent& event : phase.memory) add(event.before), add(event.buffer), add(event.allocated);
  return fmt::format("{:016x}", state);
}

}  // namespace pooch

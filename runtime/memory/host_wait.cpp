#include "runtime/memory/host_wait.h"

#include <vector>

namespace pooch::runtime {

Status await(Device& device, StreamOrder& order, const Marks& marks, Held& held) {
  std::vector<EventHandle> events;
  for (const Mark& mark : marks) {
    const auto finished = order.finished(mark);
    if (!finished) return finished.error();
    if (*finished) continue;
    const auto event = order.event_for(mark);
    if (!event) return event.error();
    if (*event != EventHandle::none) events.push_back(*event);
  }
  if (events.empty()) return Done{};
  if (const auto noted = order.note_host_wait(marks); !noted) return noted;
  const Status outcome = held.released([&]() -> Status {
    for (const EventHandle event : events)
      if (const auto reached = device.synchronize(event); !reached) return reached;
    return Done{};
  });
  if (!outcome) return outcome;
  for (const Mark& mark : marks) order.note_finished(mark);
  return Done{};
}

Result<bool> await_idle(Device& device, StreamOrder& order, Held& held) {
  const auto blocked = order.host_blocked();
  if (!blocked) return blocked.error();
  if (*blocked) return false;
  const Status done = held.released([&] { return device.synchronize_all(); });
  if (!done) return done.error();
  return true;
}

}  // namespace pooch::runtime

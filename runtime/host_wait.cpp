#include "runtime/host_wait.h"

#include <vector>

namespace pooch::runtime {

Status await(Device& device, StreamOrder& order, const Marks& marks, std::unique_lock<std::mutex>& lock) {
  std::vector<EventHandle> events;
  for (const Mark& mark : marks) {
    const auto finished = order.finished(mark);
    if (!finished) return finished.error();
    if (*finished) continue;
    const auto event = order.event_for(mark);
    if (!event) return event.error();
    events.push_back(*event);
  }
  if (events.empty()) return Done{};
  lock.unlock();
  Status outcome = Done{};
  for (const EventHandle event : events) {
    outcome = device.synchronize(event);
    if (!outcome) break;
  }
  lock.lock();
  if (!outcome) return outcome;
  for (const Mark& mark : marks) order.note_finished(mark);
  return Done{};
}

}  // namespace pooch::runtime

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
    if (*event != EventHandle::none) events.push_back(*event);
  }
  if (events.empty()) return Done{};
  if (const auto noted = order.note_host_wait(); !noted) return noted;
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

Result<bool> await_idle(Device& device, StreamOrder& order, std::unique_lock<std::mutex>& lock) {
  const auto blocked = order.host_blocked();
  if (!blocked) return blocked.error();
  if (*blocked) return false;
  lock.unlock();
  const Status done = device.synchronize_all();
  lock.lock();
  if (!done) return done.error();
  return true;
}

}  // namespace pooch::runtime

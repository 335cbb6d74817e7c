// Ops that may touch what no operand names, and the landing of evicted memory for them.
#include "core/log.h"
#include "runtime/session_impl.h"

namespace pooch::runtime {

// The first such op: from here on what leaves the device lands. What left it before comes back once, so that
// it can.
void Session::Impl::begin_landing(std::unique_lock<std::mutex>& lock) {
  // A plan from a file may have given each address its place.
  if (const auto apart = executor->dismantle(lock); !apart) return report_failure("landing", apart.error());
  log::info("landing: evicted memory is mapped to its copy on the host");
  order.set_eager(true);
  residency->land_with(&*landing);
  for (Chunk* chunk : residency->mapped()) {
    if (chunk->state == ChunkState::evicting) residency->take_back(*chunk);
    if (!chunk->stale) residency->drop_host_copy(*chunk);
  }
  std::vector<Address> away;
  residency->each_range([&](const Range& range) {
    for (const Chunk& chunk : range.chunks)
      if (chunk.state == ChunkState::evicted) away.push_back(chunk.address);
  });
  std::vector<ChunkUse> uses;
  for (const Address address : away) {
    const tracker::Allocation* const owner = tracker.allocations().containing(address);
    Range* const range = owner == nullptr ? nullptr : residency->find(owner->base);
    if (range == nullptr) continue;
    const tracker::Operand part{owner->id,    range->base,    address - range->base, 1,
                                Effect::read, owner->managed, owner->born,           range};
    if (const auto placed = placement->place("what is on the host", {&part, 1}, uses, lock); !placed)
      return log::info("landing: {}", placed.error().message);
  }
}

Status Session::Impl::expect_unforeseen(std::unique_lock<std::mutex>& lock) {
  ++unforeseen_ops;
  if (!landing) return Done{};
  landing_begun.wait(lock, [this] { return !landing_begins; });
  if (residency->landing() == nullptr) {
    landing_begins = true;
    begin_landing(lock);
    landing_begins = false;
    landing_begun.notify_all();
  }
  return landing->settle(lock);
}

Status Session::Impl::enter_unforeseen(StreamIndex stream) {
  return landing ? landing->enter(stream) : Status(Done{});
}

void Session::Impl::note_unforeseen(StreamIndex stream) {
  if (!landing) return;
  if (const auto noted = landing->launched(stream); !noted)
    report_failure("recording an event", noted.error());
}

int Session::Impl::launch_without_operands(const Call& call, FunctionRef<int()> real, int refused,
                                           std::unique_lock<std::mutex>& lock) {
  if (!call.unforeseen || !landing) {
    unforeseen_ops += call.unforeseen ? 1 : 0;
    lock.unlock();
    return real();
  }
  const StreamIndex stream = order.index(call.stream);
  Status ready = expect_unforeseen(lock);
  if (ready) ready = landing->enter(stream);
  if (!ready) {
    report_failure(call.function, ready.error(), "the call fails rather than go on with a doubtful value");
    return refused;
  }
  const int status = real();
  note_unforeseen(stream);
  return status;
}

}  // namespace pooch::runtime

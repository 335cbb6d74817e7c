// Ops that may touch what no operand names, and the landing of evicted memory for them.
#include "core/log.h"
#include "runtime/processes/host_handles.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {

void Session::Impl::land_from_the_start() {
  std::string why;
  if (!memory.landing->maps())
    why = "the device cannot map host memory at its addresses";
  else if (const Status works =
               try_host_handles(setting.info, CacheFolder(cache_folder(setting.config.cache_folder)));
           !works)
    why = works.error().message;
  if (why.empty()) return memory.residency->land_with(&*memory.landing);
  memory.landing->give_up_mapping();
  log::warn("POOCH_LANDING=on: {}, so nothing lands", why);
}

// The first such op: from here on it may change what nobody names, so no copy on the host outlives its
// chunk's return to the device. Where evicted memory can be mapped to its copy, what left before comes back
// once, so that it can. Error: memory that several share cannot be given to each alone.
Status Session::Impl::begin_landing(Held& held) {
  if (memory.landing->maps()) {
    // Another process may take its time; the other threads need not wait.
    const Status works = held.released([&] {
      return try_host_handles(setting.info, CacheFolder(cache_folder(setting.config.cache_folder)));
    });
    if (!works) {
      log::info("{}: no host memory is mapped at device addresses", works.error().message);
      memory.landing->give_up_mapping();
    }
  }
  if (const auto apart = executor->dismantle(held); !apart) return apart;
  if (memory.landing->maps())
    log::info("landing: evicted memory is mapped to its copy on the host");
  else
    log::info("an op may touch any memory: what is on the device counts as changed; evicted memory faults");
  memory.order.set_eager(true);
  memory.residency->land_with(&*memory.landing);
  memory.landing->fetched(memory.order.latest(memory.residency->in_stream()));
  for (Chunk* chunk : memory.residency->mapped()) {
    if (chunk->state == ChunkState::evicting) memory.residency->take_back(*chunk);
    if (!chunk->stale) memory.residency->drop_host_copy(*chunk);
  }
  if (!memory.landing->maps()) return Done{};
  std::vector<Address> away;
  memory.residency->each_range([&](const Range& range) {
    for (const Chunk& chunk : range.chunks)
      if (chunk.state == ChunkState::evicted) away.push_back(chunk.address);
  });
  std::vector<ChunkUse> uses;
  for (const Address address : away) {
    const tracker::Allocation* const owner = tracker.allocations().containing(address);
    Range* const range = owner == nullptr ? nullptr : memory.residency->find(owner->base);
    if (range == nullptr) continue;
    const tracker::Operand part{owner->id,    range->base,    address - range->base, 1,
                                Effect::read, owner->managed, owner->born,           range};
    if (const auto placed = memory.placement->place("what is on the host", {&part, 1}, uses, held); !placed) {
      log::info("landing: {}", placed.error().message);
      break;
    }
  }
  return Done{};
}

Status Session::Impl::expect_unforeseen(Held& held) {
  if (const auto made = remaking->make_all(held); !made) return made;
  Turn& begins = hidden.unforeseen.landing_begins();
  begins.await(held);
  if (memory.residency->landing() == nullptr) {
    const Turn::Taken turn = begins.take(held);
    if (const auto begun = begin_landing(held); !begun) return begun;
  }
  // What does not settle is taken back when the op enters.
  if (const auto settled = memory.landing->settle(held); !settled)
    log::info("evictions are taken back: {}", settled.error().message);
  return Done{};
}

// When whole iterations have passed without such an op, as once the machine code of all kernels is known,
// what it asked of all memory is asked no more. Another one begins it anew.
void Session::Impl::end_landing() {
  if (memory.residency->landing() == nullptr || setting.config.landing == LandingUse::on ||
      hidden.unforeseen.tables_missed())
    return;
  if (!hidden.unforeseen.long_ago(tracker.iterations().count())) return;
  if (!memory.landing->rest()) return;
  memory.residency->land_with(nullptr);
  log::info("landing ends: all ops of the last iterations named what they touch");
}

int Session::Impl::launch_without_operands(const Call& call, FunctionRef<int()> real, const Refusal& refusal,
                                           Held& held) {
  Work& w = *ThreadsWork::inside(this);
  if (!call.unforeseen) {
    held.give_up();
    w.launch = &held;
    const int status = real();
    w.launch = nullptr;
    return status;
  }
  hidden.unforeseen.count();
  const StreamIndex stream = memory.order.index(call.stream);
  Status ready = expect_unforeseen(held);
  w.entered = stream;
  if (ready) ready = memory.landing->enter(stream);
  if (!ready) {
    held.give_up();
    return refuse(call, ready.error(), refusal);
  }
  w.launch = &held;
  const int status = real();
  w.launch = nullptr;
  memory.landing->launched(stream);
  return status;
}

}  // namespace pooch::runtime

#include "tests/support/rig.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/bytes.h"
#include "core/replay.h"

namespace pooch::test {

using namespace runtime;

Rig::Rig(const Config& config, std::uint64_t device_bytes)
    : device(device_bytes),
      limits(*settle_limits(config, *device.info(), *device.free_bytes())),
      arena(*Arena::reserve(device)),
      memory(device, limits, arena),
      profiler(device, tracker, cupti::TimerChoice::events, config.substitutes) {
  EXPECT_TRUE(memory.open(device, config, limits, /*lands=*/false));
  verification.emplace(config.verify, limits.host_budget,
                       Verification::Parts{device, memory.order, *memory.residency, memory.host,
                                           *memory.placement, memory.temporaries});
  executor.emplace(Executor::Parts{memory.order, memory.pool, *memory.residency, *memory.departures,
                                   *memory.placement, memory.space, memory.temporaries, tracker, device,
                                   *verification});
  memory.placement->set_last_resort([this](Held& held) -> Result<bool> {
    const bool given_up = verification->give_up_memory();
    if (!executor->aliased()) return given_up;
    if (const auto apart = executor->dismantle(held); !apart) return apart.error();
    return true;
  });
}

Rig::~Rig() {
  device.drain();
  profiler.trials().close();
  memory.close(device);
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
}

Result<Address> Rig::allocate(std::uint64_t bytes, StreamHandle stream) {
  const Held held(mutex);
  const std::uint64_t rounded = round_up(bytes, page);
  const auto address = memory.space.allocate(rounded, stream);
  if (!address) return Error{ErrorCode::out_of_memory, "the address space is exhausted"};
  const AllocationId id = tracker.allocated(*address, bytes, /*managed=*/true, /*by_program=*/true).id;
  tracker.set_backing(*address, &memory.residency->open(*address, rounded, id, bytes));
  return *address;
}

Status Rig::free(Address base, StreamHandle stream) {
  Held held(mutex);
  const tracker::Allocation gone = *tracker.allocations().starting_at(base);
  Range& range = *static_cast<Range*>(gone.backing);
  Marks after;
  after.add(memory.order.launched(memory.order.index(stream)));
  if (const auto ready = executor->freeing(range, gone.id, held); !ready) return ready;
  memory.residency->close(range, after);
  if (const auto taken = executor->freed(range); !taken) return taken;
  tracker.freed(base);
  memory.space.free(base, stream);
  return Done{};
}

Status Rig::make_ready(const Call& call, Executor::Readied& readied, Held& held) {
  do {
    const auto found = executor->before(op_, call.stream, held);
    if (!found) return found.error();
    readied = *found;
    uses_.clear();
    if (const auto placed = memory.placement->place(call.function, op_.operands, uses_, held); !placed)
      return placed;
  } while (executor->overtaken(readied));
  for (const ChunkUse& use : uses_)
    if (const auto ordered = memory.order.follow(memory.order.index(call.stream), use.chunk->before);
        !ordered)
      return ordered;
  return Done{};
}

Status Rig::submit(const Call& call, FunctionRef<void()> launch) {
  Held held(mutex);
  tracker.resolve(call, op_);
  describe(op_);
  Executor::Readied readied;
  if (const auto ready = make_ready(call, readied, held); !ready) return ready;
  const auto timed = profiler.timing() ? std::optional(profiler.begin(call.stream)) : std::nullopt;
  launch();
  if (timed) profiler.end(*timed, call.stream, op_, /*disturbed=*/false);
  if (readied.position && executor->wants_copy(*readied.position) && call.keep != nullptr)
    executor->keep(*readied.position, call, op_, (*call.keep)());
  const Mark mark = memory.order.launched(memory.order.index(call.stream));
  tracker.launched(op_);
  profiler.launched();
  memory.residency->used(uses_, mark, memory.placement->clock());
  for (const ChunkUse& use : uses_)
    if (use.changes)
      use.chunk->live =
          tracker::Tracker::live(op_.operands[use.operand], use.chunk->offset, use.chunk->occupied);
  return readied.position ? executor->after(*readied.position, op_) : Done{};
}

namespace {

constexpr std::uint64_t map_bytes = 2 * MiB;

std::uint64_t* word(LazyDevice& device, Address map) {
  return reinterpret_cast<std::uint64_t*>(device.translate(map, sizeof(std::uint64_t)));
}

void write(LazyDevice& device, StreamHandle stream, Address map, std::uint64_t number, double us) {
  device.launch(
      stream,
      [&device, map, number] {
        if (std::uint64_t* const at = word(device, map)) *at = number;
      },
      us);
}

struct Again : Replay {
  Again(LazyDevice& on, std::uint64_t number, double us) : device_(on), number_(number), us_(us) {}
  Status run(std::span<const Address> places, StreamHandle stream) override {
    write(device_, stream, places[1], number_, us_);
    return Done{};
  }

 private:
  LazyDevice& device_;
  const std::uint64_t number_;
  const double us_;
};

}  // namespace

Status ChainProgram::iterate(std::size_t maps) {
  if (!weight_)
    if (const auto begun = begin(); !begun) return begun;
  for (std::size_t map = 0; map < maps; ++map)
    if (const auto made = make(map); !made) return made;
  for (std::size_t map = maps; map-- > 0;)
    if (const auto was_read = read(map); !was_read) return was_read;
  const Status updated = on_weight("update", Effect::read_write);
  rig_.device.drain();
  return updated;
}

Status ChainProgram::begin() {
  const auto made = rig_.allocate(map_bytes, stream_);
  if (!made) return made.error();
  weight_ = *made;
  return on_weight("init", Effect::overwrite);
}

Status ChainProgram::on_weight(const char* function, Effect effect) {
  const Access access{*weight_, map_bytes, effect};
  return rig_.submit({function, OpKind::elementwise, stream_, {&access, 1}}, [&] {
    rig_.device.launch(
        stream_, [] {}, op_us);
  });
}

Status ChainProgram::make(std::size_t map) {
  const auto address = rig_.allocate(map_bytes, stream_);
  if (!address) return address.error();
  const std::uint64_t number = ++made_;
  maps_[map] = {*address, number};
  const Access accesses[]{{*weight_, map_bytes, Effect::read}, {*address, map_bytes, Effect::overwrite}};
  const auto copy = [&]() -> std::unique_ptr<Replay> {
    return std::make_unique<Again>(rig_.device, number, op_us);
  };
  const FunctionRef<std::unique_ptr<Replay>()> keep(copy);
  Call call{"make", OpKind::elementwise, stream_, accesses};
  call.traits = map;
  call.keep = &keep;
  return rig_.submit(call, [&] { write(rig_.device, stream_, *address, number, op_us); });
}

Status ChainProgram::read(std::size_t map) {
  const Access access{maps_[map].address, map_bytes, Effect::read};
  Call call{"read", OpKind::elementwise, stream_, {&access, 1}};
  call.traits = map;
  const auto done = rig_.submit(call, [&] {
    rig_.device.launch(
        stream_,
        [this, map = maps_[map]] {
          const std::uint64_t* const found = word(rig_.device, map.address);
          wrong_ += found == nullptr || *found != map.number;
        },
        op_us);
  });
  return done ? rig_.free(maps_[map].address, stream_) : done;
}

}  // namespace pooch::test

#include "runtime/session/memory.h"

namespace pooch::runtime {
namespace {

constexpr std::uint64_t largest_arena = std::uint64_t{16} << 40;
constexpr std::uint64_t smallest_arena = 64 * GiB;

}  // namespace

// Address space costs next to nothing; how much a driver grants differs.
Result<Arena> Arena::reserve(Device& device) {
  for (std::uint64_t bytes = largest_arena;; bytes /= 2) {
    const auto base = device.reserve(bytes);
    if (base) return Arena{*base, bytes};
    if (bytes <= smallest_arena) return base.error();
  }
}

Memory::Memory(Device& device, const Limits& limits, const Arena& arena)
    : order(device),
      pool(device, limits.cap),
      host(device, order, limits.host_budget),
      outside(device, pool, limits.cap),
      // Who runs beyond the end of an allocation finds no other one there. The first page is left out: an
      // address whose lower half is small looks like two integers (address_table.h).
      space(arena.base + page, arena.bytes - arena.bytes / 16 - page, page, largest_piece(limits.cap)),
      temporaries(arena.base + (arena.bytes - arena.bytes / 16), arena.bytes / 16, 0,
                  largest_piece(limits.cap)) {}

Status Memory::open(Device& device, const Config& config, const Limits& limits, bool lands) {
  for (StreamHandle* stream : {&out_stream, &in_stream}) {
    const auto made = device.create_stream();
    if (!made) return made.error();
    *stream = *made;
  }
  if (const auto asked = outside.open(); !asked) return asked;
  residency.emplace(device, order, pool, host, out_stream, in_stream);
  if (config.check_copies) residency->check_copies();
  landing.emplace(device, order, host, *residency, lands ? Landing::Mapping::yes : Landing::Mapping::no);
  demand.emplace(device, order, pool, host, *residency, foresight, config.policy);
  departures.emplace(device, order, pool, *residency);
  placement.emplace(limits, pool, *residency, *departures, *demand);
  streaming.emplace(pool, order, *residency, *departures, *placement, foresight);
  pool.set_recount([this] {
    outside.ask();
    return outside.with(0);
  });
  placement->set_recount([this] { return outside.shrinks(); });
  return Done{};
}

void Memory::close(Device& device) {
  if (residency && residency->landing() != nullptr) (void)residency->unmap_landed();
  if (residency) residency->land_with(nullptr);
  if (residency)
    while (!residency->mapped().empty())
      if (!residency->finish_eviction(*residency->mapped().back())) break;
  for (const StreamHandle stream : {out_stream, in_stream})
    if (stream != StreamHandle{}) (void)device.destroy_stream(stream);
}

}  // namespace pooch::runtime

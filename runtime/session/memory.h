// All that holds and moves managed memory.
#pragma once

#include <cstdint>
#include <optional>

#include "core/config.h"
#include "runtime/memory/address_space.h"
#include "runtime/memory/handle_pool.h"
#include "runtime/memory/host_arena.h"
#include "runtime/memory/landing.h"
#include "runtime/memory/memory_limits.h"
#include "runtime/memory/outside_account.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"
#include "runtime/placement/demand.h"
#include "runtime/placement/departures.h"
#include "runtime/placement/placement.h"
#include "runtime/placement/streaming.h"

namespace pooch::runtime {

// A span of addresses, reserved once, that all managed memory lies in.
struct Arena {
  // The largest that the driver grants. Error: it grants none of a useful size.
  static Result<Arena> reserve(Device& device);

  Address base;
  std::uint64_t bytes;
};

// Each part rests on those before it; the optional ones exist once it is open.
struct Memory {
  Memory(Device& device, const Limits& limits, const Arena& arena);
  // Error: the device refuses a stream or an answer.
  Status open(Device& device, const Config& config, const Limits& limits, bool lands);
  // Unmaps all of it. The device is idle.
  void close(Device& device);

  // `host` knows the host budget and its use; `outside`, what is outside of the pool.
  StreamOrder order;
  HandlePool pool;
  HostArena host;
  OutsideAccount outside;
  AddressSpace space, temporaries;  // the program's, and for what replays need
  StreamHandle out_stream{}, in_stream{};
  std::optional<Residency> residency;
  std::optional<Landing> landing;
  Foresight foresight;
  std::optional<Demand> demand;
  std::optional<Departures> departures;
  std::optional<Placement> placement;
  std::optional<Streaming> streaming;
};

}  // namespace pooch::runtime

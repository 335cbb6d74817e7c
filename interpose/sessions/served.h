// The devices that are served, each by a session. One that is served is never taken back.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <span>

#include "core/ids.h"
#include "interpose/device/real_device.h"
#include "runtime/session/session.h"

namespace pooch::interpose {

struct Served {
  runtime::Session* session;
  RealDevice* port;
  CUcontext context;  // in which the device was used first; calls in others pass through
  CUdevice device;
};

inline constexpr std::size_t most_served = 64;

// Constant-initialised and never destroyed: hooks run before this library's initialisers and after its
// destructors.
struct ServedList {
  std::array<const Served*, most_served> all{};  // the first `count` are valid
  std::atomic<std::size_t> count{0};
};
extern constinit ServedList served_list;

// In the order in which they were opened.
inline std::span<const Served* const> served() {
  return {served_list.all.data(), served_list.count.load(std::memory_order_acquire)};
}
// One thread at a time; `one` lives as long as the process.
void add_served(const Served* one);

// The first session, whatever context is current; nullptr: none is open, or pooch has stood down.
runtime::Session* open_session();
// The one whose managed memory `address` is; nullptr: nobody's.
runtime::Session* session_owning(Address address);
// The one that serves the device; nullptr: none.
runtime::Session* session_on(CUdevice device);
// The context that a session belongs to, and its device.
CUcontext context_of(const runtime::Session& session);
CUdevice device_of(const runtime::Session& session);
// The device that is served in this context; nothing where none is.
std::optional<CUdevice> device_served_in(CUcontext context);

}  // namespace pooch::interpose

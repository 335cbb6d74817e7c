// Waiting for the device without keeping other threads out.
#pragma once

#include <chrono>

#include "core/device.h"
#include "runtime/memory/held.h"
#include "runtime/memory/stream_order.h"

namespace pooch::runtime {

// How long to wait for work that a host function of the program blocks: that function may itself wait for the
// very thread that waits here.
constexpr std::chrono::seconds patience_with_the_program(10);

// The host waits until the device has got beyond all marks. `held` is released meanwhile, so everything that
// it guards may have changed; it is not released if the marks are known to be finished.
Status await(Device& device, StreamOrder& order, const Marks& marks, Held& held);

// The host waits, with `held` released, until the device has finished everything. False, without waiting: the
// program itself blocks a stream, so the wait might never end.
Result<bool> await_idle(Device& device, StreamOrder& order, Held& held);

}  // namespace pooch::runtime

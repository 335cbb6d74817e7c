// The port to a GPU: what runtime/ asks of the driver and nothing more. `RealDevice` (interpose/) forwards to
// libcuda; tests put decorators in front of it that lose a wait, free too early or run out of memory.
//
// Every method may be called from any thread that has the program's context current. Sizes are bytes. Nothing
// here waits for the device except `synchronize*`. Errors are ErrorCode::device with the CUresult, or
// ErrorCode::out_of_memory where the driver said so of a call that takes memory: reserve, create, map,
// set_access, host_allocate and create_host. What else is out of memory is the driver's own trouble, which no
// eviction cures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/ids.h"
#include "core/result.h"
#include "core/substitute.h"

namespace pooch {

struct DeviceInfo {
  std::string name;
  std::uint64_t total_bytes;  // device memory, as the driver reports it
  std::uint64_t granularity;  // unit of physical handles: a divisor of 2 MiB, as a rule 2 MiB itself
  int numa_node;              // the GPU's host NUMA node, -1 where unknown
  bool host_handles = false;  // it says that it has create_host
  // For another process to try that: the device on the PCI bus ("0000:3b:00.0"; empty: its word is enough),
  // and the file of its driver.
  std::string bus_id = {}, driver = {};
};

// Page-locked host memory that is a handle as well: `memory` for the program and for copies, `handle` to be
// mapped at device addresses.
struct HostHandle {
  PhysicalHandle handle;
  std::byte* memory;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual Result<DeviceInfo> info() = 0;
  // Device memory that is free now, whoever uses the rest.
  virtual Result<std::uint64_t> free_bytes() = 0;

  // Virtual addresses: reserved, without memory behind them.
  virtual Result<Address> reserve(std::uint64_t bytes) = 0;
  virtual Status release(Address base, std::uint64_t bytes) = 0;

  // Physical memory. A handle is mapped whole, at offset 0, to one or several addresses.
  virtual Result<PhysicalHandle> create(std::uint64_t bytes) = 0;
  virtual Status destroy(PhysicalHandle handle) = 0;
  virtual Status map(Address at, std::uint64_t bytes, PhysicalHandle handle) = 0;
  virtual Status set_access(Address at, std::uint64_t bytes) = 0;  // read and write from this device
  virtual Status unmap(Address at, std::uint64_t bytes) = 0;       // does NOT wait for running work

  // Page-locked host memory, usable by copies in any stream.
  virtual Result<std::byte*> host_allocate(std::uint64_t bytes) = 0;
  virtual Status host_free(std::byte* memory) = 0;
  // The same as a handle for `map`, `set_access` and `unmap`: what the device reads and writes there crosses
  // the link. `bytes`: as for create(). Error not_supported where info().host_handles is false.
  virtual Result<HostHandle> create_host(std::uint64_t bytes) = 0;
  virtual Status destroy_host(const HostHandle& made, std::uint64_t bytes) = 0;  // mapped nowhere else

  // Streams (non-blocking towards the legacy stream) and events (without timing, but for
  // create_timing_event).
  virtual Result<StreamHandle> create_stream() = 0;
  virtual Status destroy_stream(StreamHandle stream) = 0;
  virtual Result<EventHandle> create_event() = 0;
  virtual Result<EventHandle> create_timing_event() = 0;
  virtual Status destroy_event(EventHandle event) = 0;
  virtual Status record(EventHandle event, StreamHandle stream) = 0;
  virtual Status wait(StreamHandle stream, EventHandle event) = 0;  // later work of `stream` follows `event`
  virtual Result<bool> finished(EventHandle event) = 0;
  virtual Status synchronize(EventHandle event) = 0;  // the host waits
  // Device time from one finished timing event to another, negative where `to` happened first. The driver
  // answers in float milliseconds: exact to a microsecond up to some 10 seconds.
  virtual Result<double> elapsed_us(EventHandle from, EventHandle to) = 0;
  virtual Status synchronize_all() = 0;  // the host waits for everything
  virtual Result<bool> capturing(StreamHandle stream) = 0;

  // Asynchronous copies between device and page-locked memory.
  virtual Status copy_out(std::byte* to, Address from, std::uint64_t bytes, StreamHandle stream) = 0;
  virtual Status copy_in(Address to, const std::byte* from, std::uint64_t bytes, StreamHandle stream) = 0;

  // Asynchronous: the Digest (core/digest.h) of device memory, its two words to `result`, which is 8-byte
  // aligned device memory. Error not_supported: the device cannot run what computes it.
  virtual Status digest(Address from, std::uint64_t bytes, Address result, StreamHandle stream) = 0;

  // Asynchronous: y of a batch norm from statistics that are there, in one pass (core/substitute.h). Error:
  // not_supported, as above.
  virtual Status normalise(const NormaliseCall& call, StreamHandle stream) = 0;
  // Asynchronous: y is compared with what each formula makes of the same. Where that differs, `differs`, in
  // page-locked memory, has 1 in the formula's place afterwards; it had 0. Error: not_supported.
  virtual Status compare(const NormaliseCall& call, std::uint32_t (*differs)[formulas],
                         StreamHandle stream) = 0;
};

}  // namespace pooch

// The interface to a GPU: what runtime/ needs of the driver and nothing more. `RealDevice` (interpose/)
// forwards to libcuda; tests wrap it in decorators that lose a wait, free too early or run out of memory.
//
// Every method may be called from any thread that has the program's context current. Sizes are bytes. Nothing
// here waits for the device except `synchronize*`. Errors are ErrorCode::device with the CUresult, or
// ErrorCode::out_of_memory if the driver returned that from a call that takes memory: reserve, create, map,
// set_access, host_allocate and create_host. Other out-of-memory errors are ErrorCode::device: they come from
// the driver itself; eviction does not help.
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
  std::uint64_t granularity;  // unit of physical handles: a divisor of 2 MiB, usually 2 MiB itself
  int numa_node;              // the GPU's host NUMA node, -1 where unknown
  bool host_handles = false;  // the device reports that it has create_host
  // For the process that tests this: the PCI bus id ("0000:3b:00.0"; empty: no test is needed), and the
  // driver's file.
  std::string bus_id = {}, driver = {};
};

// Page-locked host memory that also has a handle: `memory` for the program and for copies, `handle` for
// mapping at device addresses.
struct HostHandle {
  PhysicalHandle handle;
  std::byte* memory;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual Result<DeviceInfo> info() = 0;
  // Device memory that is free now, counting all processes.
  virtual Result<std::uint64_t> free_bytes() = 0;

  // Virtual addresses: reserved, with no memory mapped.
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
  // The same, with a handle for `map`, `set_access` and `unmap`: device accesses to it cross the link.
  // `bytes`: as for create(). Error not_supported where info().host_handles is false.
  virtual Result<HostHandle> create_host(std::uint64_t bytes) = 0;
  virtual Status destroy_host(const HostHandle& made, std::uint64_t bytes) = 0;  // mapped only at made.memory

  // Streams (non-blocking towards the legacy stream) and events (without timing, except create_timing_event).
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

  // Asynchronous: writes the Digest (core/digest.h) of device memory as two words to `result`, 8-byte aligned
  // device memory. Error not_supported: the device cannot run the digest kernel.
  virtual Status digest(Address from, std::uint64_t bytes, Address result, StreamHandle stream) = 0;

  // Asynchronous: computes y of a batch norm in one pass from existing statistics (core/substitute.h). Error:
  // not_supported, as above.
  virtual Status normalise(const NormaliseCall& call, StreamHandle stream) = 0;
  // Asynchronous: compares y with the result of each formula. Where they differ, sets the formula's element
  // of `differs` (page-locked, 0 before) to 1. Error: not_supported.
  virtual Status compare(const NormaliseCall& call, std::uint32_t (*differs)[formulas],
                         StreamHandle stream) = 0;
};

}  // namespace pooch

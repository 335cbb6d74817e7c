// A Device that counts what passes through it. The counters are what the summary reports.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/device.h"

namespace pooch::runtime {

struct DeviceCounters {
  std::atomic<std::uint64_t> vmm_calls{0};  // create, destroy, map, set_access, unmap
  std::atomic<std::uint64_t> handles_created{0};
  std::atomic<std::uint64_t> host_allocations{0};  // page-locked
  std::atomic<std::uint64_t> bytes_out{0};         // device to host
  std::atomic<std::uint64_t> bytes_in{0};          // host to device
  std::atomic<std::uint64_t> host_waits{0};  // synchronize() only; synchronize_all() keeps cudaFree's promise

  // Changes whenever memory was moved, or the host waited for it.
  std::uint64_t moves() const { return vmm_calls + bytes_out + bytes_in + host_waits; }
};

class CountingDevice final : public Device {
 public:
  explicit CountingDevice(Device& inner) : inner_(inner) {}
  const DeviceCounters& counters() const { return counters_; }

  Result<DeviceInfo> info() override { return inner_.info(); }
  Result<std::uint64_t> free_bytes() override { return inner_.free_bytes(); }
  Result<Address> reserve(std::uint64_t bytes) override { return inner_.reserve(bytes); }
  Status release(Address base, std::uint64_t bytes) override { return inner_.release(base, bytes); }
  Result<PhysicalHandle> create(std::uint64_t bytes) override;
  Status destroy(PhysicalHandle handle) override { return vmm(), inner_.destroy(handle); }
  Status map(Address at, std::uint64_t bytes, PhysicalHandle handle) override {
    return vmm(), inner_.map(at, bytes, handle);
  }
  Status set_access(Address at, std::uint64_t bytes) override { return vmm(), inner_.set_access(at, bytes); }
  Status unmap(Address at, std::uint64_t bytes) override { return vmm(), inner_.unmap(at, bytes); }
  Result<std::byte*> host_allocate(std::uint64_t bytes) override;
  Status host_free(std::byte* memory) override { return inner_.host_free(memory); }
  Result<HostHandle> create_host(std::uint64_t bytes) override;
  Status destroy_host(const HostHandle& made, std::uint64_t bytes) override {
    return vmm(), inner_.destroy_host(made, bytes);
  }
  Result<StreamHandle> create_stream() override { return inner_.create_stream(); }
  Status destroy_stream(StreamHandle stream) override { return inner_.destroy_stream(stream); }
  Result<EventHandle> create_event() override { return inner_.create_event(); }
  Result<EventHandle> create_timing_event() override { return inner_.create_timing_event(); }
  Result<double> elapsed_us(EventHandle from, EventHandle to) override { return inner_.elapsed_us(from, to); }
  Status destroy_event(EventHandle event) override { return inner_.destroy_event(event); }
  Status record(EventHandle event, StreamHandle stream) override { return inner_.record(event, stream); }
  Status wait(StreamHandle stream, EventHandle event) override { return inner_.wait(stream, event); }
  Result<bool> finished(EventHandle event) override { return inner_.finished(event); }
  Status synchronize(EventHandle event) override;
  Status synchronize_all() override { return inner_.synchronize_all(); }
  Result<bool> capturing(StreamHandle stream) override { return inner_.capturing(stream); }
  Status copy_out(std::byte* to, Address from, std::uint64_t bytes, StreamHandle stream) override;
  Status copy_in(Address to, const std::byte* from, std::uint64_t bytes, StreamHandle stream) override;
  Status digest(Address from, std::uint64_t bytes, Address result, StreamHandle stream) override {
    return inner_.digest(from, bytes, result, stream);
  }
  Status normalise(const NormaliseCall& call, StreamHandle stream) override {
    return inner_.normalise(call, stream);
  }
  Status compare(const NormaliseCall& call, std::uint32_t (*differs)[formulas],
                 StreamHandle stream) override {
    return inner_.compare(call, differs, stream);
  }

 private:
  void vmm() { counters_.vmm_calls.fetch_add(1, std::memory_order_relaxed); }

  Device& inner_;
  DeviceCounters counters_;
};

}  // namespace pooch::runtime

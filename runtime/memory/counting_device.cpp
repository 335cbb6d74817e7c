#include "runtime/memory/counting_device.h"

namespace pooch::runtime {

Result<PhysicalHandle> CountingDevice::create(std::uint64_t bytes) {
  vmm();
  counters_.handles_created.fetch_add(1, std::memory_order_relaxed);
  return inner_.create(bytes);
}

Result<std::byte*> CountingDevice::host_allocate(std::uint64_t bytes) {
  counters_.host_allocations.fetch_add(1, std::memory_order_relaxed);
  return inner_.host_allocate(bytes);
}

Result<HostHandle> CountingDevice::create_host(std::uint64_t bytes) {
  vmm();
  counters_.handles_created.fetch_add(1, std::memory_order_relaxed);
  return inner_.create_host(bytes);
}

Status CountingDevice::synchronize(EventHandle event) {
  counters_.host_waits.fetch_add(1, std::memory_order_relaxed);
  return inner_.synchronize(event);
}

Status CountingDevice::copy_out(std::byte* to, Address from, std::uint64_t bytes, StreamHandle stream) {
  counters_.bytes_out.fetch_add(bytes, std::memory_order_relaxed);
  return inner_.copy_out(to, from, bytes, stream);
}

Status CountingDevice::copy_in(Address to, const std::byte* from, std::uint64_t bytes, StreamHandle stream) {
  counters_.bytes_in.fetch_add(bytes, std::memory_order_relaxed);
  return inner_.copy_in(to, from, bytes, stream);
}

}  // namespace pooch::runtime

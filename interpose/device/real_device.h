// The port of core/device.h over the libcuda of this machine, real or software.
//
// It calls the driver's own functions, never a preload's hooks. Usable without any preload.
#pragma once

#include <memory>
#include <mutex>

#include "core/device.h"

namespace pooch::interpose {

struct DriverTable;
class Peers;  // the driver's functions

class RealDevice final : public Device {
 public:
  // For the device of the context that is current on this thread. Errors: device (no libcuda, no context, …),
  // not_supported (a driver without a function that pooch needs).
  static Result<std::unique_ptr<RealDevice>> open();
  // All devices of the process together page-lock no more than this from now on; more is out_of_memory.
  static void share_host_memory(std::uint64_t bytes);
  ~RealDevice() override;

  Result<DeviceInfo> info() override;
  Result<std::uint64_t> free_bytes() override;

  Result<Address> reserve(std::uint64_t bytes) override;
  Status release(Address base, std::uint64_t bytes) override;

  Result<PhysicalHandle> create(std::uint64_t bytes) override;
  Status destroy(PhysicalHandle handle) override;
  Status map(Address at, std::uint64_t bytes, PhysicalHandle handle) override;
  Status set_access(Address at, std::uint64_t bytes) override;
  Status unmap(Address at, std::uint64_t bytes) override;
  // From now on `peer` may access what is mapped, and what will be.
  Status let_in(int peer);

  Result<std::byte*> host_allocate(std::uint64_t bytes) override;
  Status host_free(std::byte* memory) override;
  Result<HostHandle> create_host(std::uint64_t bytes) override;
  Status destroy_host(const HostHandle& made, std::uint64_t bytes) override;

  Result<StreamHandle> create_stream() override;
  Status destroy_stream(StreamHandle stream) override;
  Result<EventHandle> create_event() override;
  Result<EventHandle> create_timing_event() override;
  Result<double> elapsed_us(EventHandle from, EventHandle to) override;
  Status destroy_event(EventHandle event) override;
  Status record(EventHandle event, StreamHandle stream) override;
  Status wait(StreamHandle stream, EventHandle event) override;
  Result<bool> finished(EventHandle event) override;
  Status synchronize(EventHandle event) override;
  Status synchronize_all() override;
  Result<bool> capturing(StreamHandle stream) override;

  Status copy_out(std::byte* to, Address from, std::uint64_t bytes, StreamHandle stream) override;
  Status copy_in(Address to, const std::byte* from, std::uint64_t bytes, StreamHandle stream) override;
  Status digest(Address from, std::uint64_t bytes, Address result, StreamHandle stream) override;
  Status normalise(const NormaliseCall& call, StreamHandle stream) override;
  Status compare(const NormaliseCall& call, std::uint32_t (*differs)[formulas], StreamHandle stream) override;

 private:
  RealDevice(std::unique_ptr<DriverTable> driver, int ordinal);
  Status check(int status, const char* function) const;
  struct OwnKernel {
    void* function = nullptr;  // a CUfunction, of the context that was current at its first use
  };
  Result<void*> load_kernel(OwnKernel& kernel, const char* ptx, const char* name);
  Status run_batch_norm(const NormaliseCall& call, std::uint32_t (*differs)[formulas], StreamHandle stream);

  std::unique_ptr<DriverTable> driver_;
  int ordinal_;
  std::string bus_id_;  // empty where the driver does not tell
  int numa_node_;
  std::unique_ptr<Peers> peers_;
  int host_numa_id_;  // where handles of host memory are made; -1: nowhere
  bool registers_;    // memory of the host's own may be page-locked
  int multiprocessors_;
  std::mutex kernels_mutex_;
  OwnKernel digest_, batch_norm_;
};

}  // namespace pooch::interpose

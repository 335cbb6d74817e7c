// Allocations of every kind over physical memory and addresses: plain, stream-ordered, and virtual memory
// management. Errors are the driver's own codes.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "softgpu/driver/memory/overheads.h"
#include "softgpu/driver/memory/slab.h"
#include "softgpu/driver/order/capture.h"
#include "softgpu/driver/order/scheduler.h"
#include "softgpu/driver/space/address.h"

namespace softgpu {

// Physical memory of cuMemCreate. Given back when neither references nor mappings are left.
struct Handle {
  std::uint64_t id;
  std::uint64_t bytes;
  std::vector<Extent> extents;
  CUmemAllocationProp prop;
  PhysicalMemory* memory;  // that the extents are of
  unsigned references = 1;
  unsigned mappings = 0;
};

struct Pool {
  CUmemPoolProps props{};
  int device() const { return props.location.id; }
  SlabSpace slabs;
  std::uint64_t used = 0, used_high = 0;          // live bytes as handed out
  std::uint64_t reserved = 0, reserved_high = 0;  // granules they occupy
  std::uint64_t release_threshold = 0;
  int reuse_event = 1, reuse_opportunistic = 1, reuse_internal = 1;
  bool destroyed = false;
};

class Memory {
 public:
  // Who asks: for messages and the order of things.
  struct Caller {
    const char* name;
    std::uint64_t call;
    Context* context;
    int device;  // the context's
  };

  // `handles`: host memory that handles are made of, within what `host` has left.
  Memory(AddressMap& addresses, PhysicalMemory& physical, PhysicalMemory& handles, HostMemory& host,
         Checker& checker, Scheduler& scheduler, Overheads& overheads, Violations& violations, int devices);

  // --- plain
  // ------------------------------------------------------------------------------------------------
  CUresult allocate(Lock& lock, const Caller& caller, std::uint64_t bytes, CUdeviceptr* out);
  // Waits for the device.
  CUresult free(Lock& lock, const Caller& caller, CUdeviceptr address);

  // --- stream-ordered
  // ---------------------------------------------------------------------------------------
  CUresult allocate_async(Lock& lock, const Caller& caller, std::uint64_t bytes, Pool& pool,
                          const StreamPtr& stream, CUdeviceptr* out);
  CUresult free_async(Lock& lock, const Caller& caller, CUdeviceptr address, const StreamPtr& stream);
  Pool& default_pool(int device) { return *devices_[static_cast<std::size_t>(device)].default_pool; }
  Pool*& current_pool(int device) { return devices_[static_cast<std::size_t>(device)].current_pool; }
  Pool* create_pool(const CUmemPoolProps& props);
  Pool* find_pool(CUmemoryPool pool);  // null: no such pool
  CUresult destroy_pool(Pool& pool);

  // --- virtual memory management
  // ----------------------------------------------------------------------------
  CUresult create(Lock& lock, const Caller& caller, std::uint64_t bytes, const CUmemAllocationProp& prop,
                  CUmemGenericAllocationHandle* out);
  CUresult release(const Caller& caller, CUmemGenericAllocationHandle handle);
  CUresult map(const Caller& caller, CUdeviceptr at, std::uint64_t bytes, std::uint64_t offset,
               CUmemGenericAllocationHandle handle);
  CUresult unmap(const Caller& caller, CUdeviceptr at, std::uint64_t bytes);
  // Of `device`; none: of the program itself, which only mappings of host memory allow.
  CUresult set_access(Lock& lock, const Caller& caller, CUdeviceptr at, std::uint64_t bytes,
                      CUmemAccess_flags flags, std::optional<int> device);
  CUresult retain(CUdeviceptr address, CUmemGenericAllocationHandle* out);
  const Handle* find_handle(CUmemGenericAllocationHandle handle) const;

  // Of graphs on the device.
  struct GraphBytes {
    std::uint64_t now = 0, high = 0;
  };
  const GraphBytes& graph_bytes(int device) const {
    return devices_[static_cast<std::size_t>(device)].graphs;
  }

  // Frees every allocation that a context made.
  void free_all(const Caller& caller);

 private:
  std::optional<Claim> claim(Lock& lock, PhysicalMemory& from, std::uint64_t bytes, int device,
                             const VectorClock& clock);
  void host_waits_for(const std::vector<ReleasePtr>& releases);
  CUresult place(Lock& lock, std::uint64_t bytes, int device, const VectorClock& clock, Pool* pool,
                 Object& object, std::vector<ReleasePtr>& releases);
  void take_away(Object& object, const Access& by, const ReleasePtr& release);
  CUresult allocate_captured(Lock& lock, const Caller& caller, std::uint64_t bytes, const StreamPtr& stream,
                             CUdeviceptr* out);
  CUresult free_of_graph(Lock& lock, const Caller& caller, CUdeviceptr address, const StreamPtr& stream);
  GraphBlockPtr graph_block(CUdeviceptr address) const;
  CUresult bad_free(const Caller& caller, CUdeviceptr address);
  void drop_if_unused(const std::shared_ptr<Handle>& handle, const Access& by);
  bool whole_mappings(CUdeviceptr at, std::uint64_t bytes, std::vector<Object*>& out);
  bool mapped_to_process() const { return physical_.descriptor() >= 0; }

  AddressMap& addresses_;
  PhysicalMemory &physical_, &handle_memory_;
  HostMemory& host_;
  Checker& checker_;
  Scheduler& scheduler_;
  Overheads& overheads_;
  Violations& violations_;
  struct PerDevice {
    SlabSpace slabs;
    Pool* default_pool;
    Pool* current_pool;
    GraphBytes graphs;
  };
  SlabSpace& slabs_of(const Object& object) {
    return devices_[static_cast<std::size_t>(physical_.device_of(object.extents.front().offset))].slabs;
  }
  std::map<Pool*, std::unique_ptr<Pool>> pools_;
  std::vector<PerDevice> devices_;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<Handle>> handles_;
  CUmemGenericAllocationHandle next_handle_ = 1;
  std::map<CUdeviceptr, std::weak_ptr<GraphBlock>> graph_blocks_;
};

}  // namespace softgpu

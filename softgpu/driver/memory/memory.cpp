#include "softgpu/driver/memory/memory.h"

#include <algorithm>

namespace softgpu {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

CUmemPoolProps device_pool(int device) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = device;
  return props;
}

}  // namespace

Memory::Memory(AddressMap& addresses, PhysicalMemory& physical, PhysicalMemory& handles, HostMemory& host,
               Checker& checker, Scheduler& scheduler, Overheads& overheads, Violations& violations,
               int devices)
    : addresses_(addresses),
      physical_(physical),
      handle_memory_(handles),
      host_(host),
      checker_(checker),
      scheduler_(scheduler),
      overheads_(overheads),
      violations_(violations) {
  for (int device = 0; device < devices; ++device) {
    Pool* const pool = create_pool(device_pool(device));
    devices_.push_back({{}, pool, pool, {}});
  }
}

std::optional<Claim> Memory::claim(Lock& lock, PhysicalMemory& from, std::uint64_t bytes, int device,
                                   const VectorClock& clock) {
  from.settle(scheduler_.host_clock());
  auto claim = from.claim(bytes, device, clock);
  if (claim) return claim;
  // Frees may be waiting in queues.
  scheduler_.settle(lock);
  return from.claim(bytes, device, clock);
}

// A plain allocation of memory that a stream freed: the host waits until it has.
void Memory::host_waits_for(const std::vector<ReleasePtr>& releases) {
  for (const ReleasePtr& release : releases) scheduler_.host_follows(release->clock, release->time);
}

// Finds memory and an address for `object`, whose kind, bytes and owners are set.
CUresult Memory::place(Lock& lock, std::uint64_t bytes, int device, const VectorClock& clock, Pool* pool,
                       Object& object, std::vector<ReleasePtr>& releases) {
  SlabSpace& slabs = pool != nullptr ? pool->slabs : devices_[static_cast<std::size_t>(device)].slabs;
  object.in_slab = bytes < slab_limit;
  if (object.in_slab) {
    if (auto block = slabs.take(bytes)) {
      object.base = block->address;
      object.extents = {block->physical};
      if (block->release) releases.push_back(block->release);
      return CUDA_SUCCESS;
    }
  }
  const std::uint64_t size = object.in_slab ? granule : round_up(bytes, granule);
  if (size < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  auto claim = this->claim(lock, physical_, size, device, clock);
  if (!claim) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto base = addresses_.take(size);
  if (!base) {
    physical_.release(claim->extents, nullptr);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Object whole = object;
  whole.base = *base;
  whole.bytes = size;
  whole.extents = claim->extents;
  if (mapped_to_process() && !map_object(physical_, whole)) {
    addresses_.give(*base, size);
    physical_.release(claim->extents, nullptr);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (pool != nullptr) {
    pool->reserved += size;
    pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
  }
  releases = claim->releases;
  if (object.in_slab) {
    slabs.add(*base, claim->extents.front());
    return place(lock, bytes, device, clock, pool, object, releases);
  }
  object.base = *base;
  object.extents = claim->extents;
  return CUDA_SUCCESS;
}

CUresult Memory::allocate(Lock& lock, const Caller& caller, std::uint64_t bytes, CUdeviceptr* out) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Object object{ObjectKind::allocation, 0, bytes, {}};
  object.context = caller.context;
  std::vector<ReleasePtr> releases;
  const CUresult placed =
      place(lock, bytes, caller.device, scheduler_.host_clock(), nullptr, object, releases);
  if (placed != CUDA_SUCCESS) return placed;
  host_waits_for(releases);
  const Object& added = addresses_.add(std::move(object));
  checker_.renew(added, scheduler_.host_access(caller.name, caller.call), scheduler_.host_clock(),
                 "allocates");
  *out = added.base;
  return CUDA_SUCCESS;
}

// Ends an object and gives its memory and addresses back.
void Memory::take_away(Object& object, const Access& by, const ReleasePtr& release) {
  const Object gone = object;
  addresses_.remove(object, true, by);
  Pool* pool = gone.pool;
  const std::uint64_t padded = gone.padded_end() - gone.base;
  if (pool != nullptr) pool->used -= padded;
  const auto give_back = [&](std::uint64_t base, const std::vector<Extent>& extents, const ReleasePtr& last) {
    Object whole{gone.kind, base, 0, extents};
    const std::uint64_t size = whole.padded_end() - base;
    if (mapped_to_process()) unmap_object(whole);
    addresses_.give(base, size);
    physical_.release(extents, last);
    if (pool != nullptr) pool->reserved -= size;
  };
  if (!gone.in_slab) {
    give_back(gone.base, gone.extents, release);
  } else if (const auto emptied =
                 (pool != nullptr ? pool->slabs : slabs_of(gone)).give(gone.base, gone.bytes, release)) {
    give_back(emptied->base, {emptied->physical}, emptied->release);
  }
  if (pool != nullptr && pool->destroyed && pool->used == 0) pools_.erase(pool);
}

CUresult Memory::bad_free(const Caller& caller, CUdeviceptr address) {
  const Tombstone* gone = addresses_.tombstone(address);
  const Object* object = addresses_.starts(address);
  const bool twice = (gone != nullptr && gone->freed) || (object != nullptr && object->freeing);
  Violation v{twice ? "double-free" : "invalid-free",
              {scheduler_.host_access(caller.name, caller.call), "frees"},
              {}};
  if (twice && gone != nullptr) v.b = {gone->by, "freed it"};
  v.begin = address;
  v.end = twice && gone != nullptr ? gone->end : address;
  violations_.add(v, false);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult Memory::free(Lock& lock, const Caller& caller, CUdeviceptr address) {
  if (address == 0) return CUDA_SUCCESS;
  Object* object = addresses_.starts(address);
  if (object == nullptr || object->kind == ObjectKind::mapping || object->freeing)
    return bad_free(caller, address);
  if (const GraphBlockPtr block = graph_block(address)) {  // its graph has it until that ends
    scheduler_.wait_context(lock, nullptr);
    block->live = false;
    return CUDA_SUCCESS;
  }
  object->freeing = true;
  scheduler_.wait_context(lock, nullptr);
  if (violations_.sticky()) return CUDA_ERROR_ILLEGAL_ADDRESS;
  object = addresses_.starts(address);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Access by = scheduler_.host_access(caller.name, caller.call);
  if (checker_.renew(*object, by, scheduler_.host_clock(), "frees")) take_away(*object, by, nullptr);
  return CUDA_SUCCESS;
}

CUresult Memory::allocate_async(Lock& lock, const Caller& caller, std::uint64_t bytes, Pool& pool,
                                const StreamPtr& stream, CUdeviceptr* out) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return allocate_captured(lock, caller, bytes, stream, out);
  if (pool.props.maxSize != 0 && pool.used + bytes > pool.props.maxSize) return CUDA_ERROR_OUT_OF_MEMORY;
  Object object{ObjectKind::pool_allocation, 0, bytes, {}};
  object.context = caller.context;
  object.pool = &pool;
  std::vector<ReleasePtr> releases;
  VectorClock known = stream->clock;
  known.join(scheduler_.host_clock());
  const CUresult placed = place(lock, bytes, pool.device(), known, &pool, object, releases);
  if (placed != CUDA_SUCCESS) return placed;
  const Object& added = addresses_.add(std::move(object));
  pool.used += added.padded_end() - added.base;
  pool.used_high = std::max(pool.used_high, pool.used);
  *out = added.base;

  Work work;
  work.by.name = caller.name;
  work.by.call = caller.call;
  // Memory that another stream freed: this stream waits for that.
  for (const ReleasePtr& release : releases) {
    work.submitted.join(release->clock);
    work.submit_time = std::max(work.submit_time, release->time);
  }
  work.finish = [this, address = added.base](const Access& by, Stream& in) {
    if (const Object* fresh = addresses_.starts(address)) checker_.renew(*fresh, by, in.clock, "allocates");
  };
  return scheduler_.submit(lock, stream, std::move(work));
}

CUresult Memory::free_async(Lock& lock, const Caller& caller, CUdeviceptr address, const StreamPtr& stream) {
  if (address == 0) return CUDA_SUCCESS;
  Object* object = addresses_.starts(address);
  if (object == nullptr || object->kind == ObjectKind::mapping || object->freeing)
    return bad_free(caller, address);
  if (stream->capture || graph_block(address)) return free_of_graph(lock, caller, address, stream);
  object->freeing = true;
  Work work;
  work.by.name = caller.name;
  work.by.call = caller.call;
  work.finish = [this, address](const Access& by, Stream& in) {
    Object* gone = addresses_.starts(address);
    if (gone == nullptr || !checker_.renew(*gone, by, in.clock, "frees")) return;
    take_away(*gone, by, std::make_shared<Release>(Release{by, in.clock, in.time}));
  };
  return scheduler_.submit(lock, stream, std::move(work));
}

Pool* Memory::create_pool(const CUmemPoolProps& props) {
  auto pool = std::make_unique<Pool>();
  pool->props = props;
  Pool* const key = pool.get();
  pools_.emplace(key, std::move(pool));
  return key;
}

Pool* Memory::find_pool(CUmemoryPool pool) {
  const auto i = pools_.find(reinterpret_cast<Pool*>(pool));
  return i == pools_.end() || i->second->destroyed ? nullptr : i->second.get();
}

CUresult Memory::destroy_pool(Pool& pool) {
  PerDevice& device = devices_[static_cast<std::size_t>(pool.device())];
  if (&pool == device.default_pool) return CUDA_ERROR_INVALID_VALUE;
  if (device.current_pool == &pool) device.current_pool = device.default_pool;
  pool.destroyed = true;
  if (pool.used == 0) pools_.erase(&pool);
  return CUDA_SUCCESS;
}

void Memory::free_all(const Caller& caller) {
  std::vector<std::uint64_t> mine;
  for (const auto& [base, object] : addresses_.objects()) {
    if (object.kind != ObjectKind::mapping && object.context == caller.context) mine.push_back(base);
  }
  const Access by = scheduler_.host_access(caller.name, caller.call);
  for (const std::uint64_t base : mine) {
    Object& object = *addresses_.starts(base);
    // After a violation nobody waited for running work: one report is enough.
    if (!violations_.sticky()) checker_.renew(object, by, scheduler_.host_clock(), "frees");
    take_away(object, by, nullptr);
  }
}

}  // namespace softgpu

// Memory of graphs: what a captured allocation has. The allocation and the free are nodes; the memory itself
// is there from the capture on. The driver takes it when the graph first runs, and lets graphs that do not
// run together share it.
#include <algorithm>

#include "softgpu/driver/memory/memory.h"

namespace softgpu {

GraphBlockPtr Memory::graph_block(CUdeviceptr address) const {
  const auto found = graph_blocks_.find(address);
  return found == graph_blocks_.end() ? nullptr : found->second.lock();
}

CUresult Memory::allocate_captured(Lock& lock, const Caller& caller, std::uint64_t bytes,
                                   const StreamPtr& stream, CUdeviceptr* out) {
  // Nodes run in the order of their capture, so what was freed before can serve again.
  GraphBlockPtr block;
  auto& free = stream->capture->free;
  if (const auto found = free.lower_bound(bytes); found != free.end() && found->first / 2 <= bytes) {
    block = found->second;
    free.erase(found);
  } else {
    CUdeviceptr address = 0;
    if (const CUresult status = allocate(lock, caller, bytes, &address); status != CUDA_SUCCESS)
      return status;
    const Access by = scheduler_.host_access(caller.name, caller.call);
    block = std::make_shared<GraphBlock>();
    block->address = address, block->bytes = bytes;
    GraphBytes& all = devices_[static_cast<std::size_t>(caller.device)].graphs;
    block->end = [this, address, bytes, by, &all, live = &block->live] {
      graph_blocks_.erase(address);
      all.now -= bytes;
      if (*live) return;  // an allocation like any other from now on
      if (Object* const gone = addresses_.starts(address)) take_away(*gone, by, nullptr);
    };
    graph_blocks_.emplace(address, block);
    all.high = std::max(all.high, all.now += bytes);
  }
  *out = block->address;
  Work work;
  work.by.name = caller.name;
  work.by.call = caller.call;
  work.finish = [this, block](const Access& by, Stream& in) {
    block->live = true;
    if (const Object* const fresh = addresses_.starts(block->address))
      checker_.renew(*fresh, by, in.clock, "allocates");
  };
  return scheduler_.submit(lock, stream, std::move(work));
}

// A node of the graph that allocated it; or, where nothing is captured, the end of its content alone.
CUresult Memory::free_of_graph(Lock& lock, const Caller& caller, CUdeviceptr address,
                               const StreamPtr& stream) {
  GraphBlockPtr block = graph_block(address);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) stream->capture->free.emplace(block->bytes, block);
  Work work;
  work.by.name = caller.name;
  work.by.call = caller.call;
  work.finish = [this, block = std::move(block)](const Access& by, Stream& in) {
    block->live = false;
    if (const Object* const gone = addresses_.starts(block->address))
      checker_.renew(*gone, by, in.clock, "frees");
  };
  return scheduler_.submit(lock, stream, std::move(work));
}

}  // namespace softgpu

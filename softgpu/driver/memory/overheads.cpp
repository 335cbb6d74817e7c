#include "softgpu/driver/memory/overheads.h"

#include <algorithm>
#include <utility>

namespace softgpu {
namespace {

// The stack of a thread that a context provides for.
constexpr std::uint64_t usual_local_bytes = 1024;
// A table has 8 bytes for each page of 2 MiB.
constexpr std::uint64_t table_reach = std::uint64_t{1} << 30, table_bytes = 4096;

std::uint64_t granules(std::uint64_t bytes) {
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

Overheads::Overheads(const Choice& choice, PhysicalMemory& physical, Scheduler& scheduler)
    : physical_(physical),
      scheduler_(scheduler),
      threads_(static_cast<std::uint64_t>(choice.model.multiprocessors) * threads_per_multiprocessor),
      on_(!choice.options.no_overheads),
      taken_(static_cast<std::size_t>(choice.options.devices), Taken{0, usual_local_bytes, {}}) {}

std::uint64_t Overheads::granules_for(const Taken& taken) const {
  if (!on_) return 0;
  return granules(taken.code) + granules((taken.local - usual_local_bytes) * threads_) +
         granules(taken.tables.size() * table_bytes);
}

bool Overheads::take(Lock& lock, Taken wanted, int device) {
  const std::uint64_t bytes = granules_for(wanted);
  if (!physical_.set_aside(bytes, device)) {
    scheduler_.settle(lock);  // frees may be waiting in queues
    if (!physical_.set_aside(bytes, device)) return false;
  }
  taken_[static_cast<std::size_t>(device)] = std::move(wanted);
  return true;
}

bool Overheads::loaded(const Kernel& kernel, int device) {
  return (kernel.loaded_on >> device & 1) != 0;
}

bool Overheads::load(Lock& lock, Kernel& kernel, int device) {
  const Taken& now = taken_[static_cast<std::size_t>(device)];
  const bool there = loaded(kernel, device);
  if (there && kernel.local_bytes <= now.local) return true;
  Taken wanted = now;
  if (!there) wanted.code += kernel.code_bytes;
  wanted.local = std::max<std::uint64_t>(now.local, kernel.local_bytes);
  if (!take(lock, std::move(wanted), device)) return false;
  kernel.loaded_on |= 1u << device;
  return true;
}

bool Overheads::map(Lock& lock, std::uint64_t at, std::uint64_t bytes, int device) {
  const Taken& now = taken_[static_cast<std::size_t>(device)];
  std::set<std::uint64_t> more;
  for (std::uint64_t table = at / table_reach; table <= (at + bytes - 1) / table_reach; ++table)
    if (!now.tables.contains(table)) more.insert(table);
  if (more.empty()) return true;
  Taken wanted = now;
  wanted.tables.merge(more);
  return take(lock, std::move(wanted), device);
}

void Overheads::unload(Lock& lock, Library& library) {
  for (const auto& [name, kernel] : library.kernels) {
    for (std::size_t device = 0; device < taken_.size(); ++device) {
      if (!loaded(*kernel, static_cast<int>(device))) continue;
      Taken less = taken_[device];
      less.code -= kernel->code_bytes;
      take(lock, std::move(less), static_cast<int>(device));
    }
  }
}

}  // namespace softgpu

// The device's virtual addresses: what was reserved, which object lies where, and what lay there before (so
// that a late access can be told who took its memory away). Device addresses are real addresses of this
// process: reserved without access, and mapped to the memfd in compute mode, so that kernels can dereference
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "softgpu/driver/space/physical.h"

namespace softgpu {

struct Context;
struct Handle;
struct Pool;

enum class ObjectKind { allocation, pool_allocation, mapping };

// A stretch of device addresses with memory behind it.
struct Object {
  ObjectKind kind;
  std::uint64_t base;
  std::uint64_t bytes;                                // exactly as requested; a mapping's own size
  std::vector<Extent> extents;                        // physical memory in order, at least `bytes`
  bool readable = true, writable = true;              // by the device
  bool host_readable = false, host_writable = false;  // mappings of host memory: by the program itself
  bool on_host = false;                               // a mapping of host memory
  unsigned devices = 0;              // mappings of host memory: a bit for each that may access it
  bool in_slab = false;              // shares its 2 MiB with others
  Context* context = nullptr;        // allocations
  Pool* pool = nullptr;              // pool allocations
  std::shared_ptr<Handle> handle{};  // mappings
  std::vector<Access> uses{};        // mappings: the last use by each agent
  std::uint64_t id = 0;              // cuPointerGetAttribute's buffer id
  bool freeing = false;              // a stream-ordered free has been submitted

  std::uint64_t end() const { return base + bytes; }
  bool open_to(int device) const { return (devices >> device & 1U) != 0; }
  void open_to(int device, bool yes) { devices = yes ? devices | 1U << device : devices & ~(1U << device); }
  bool accessible() const { return readable || writable || host_readable || host_writable; }
  // End of the memory behind it, past what was asked for.
  std::uint64_t padded_end() const {
    std::uint64_t at = base;
    for (const Extent& extent : extents) at += extent.bytes;
    return at;
  }
  // Calls visit(physical begin, physical end, address) for the part [begin, end) of this object.
  template <typename Visit>
  void for_pieces(std::uint64_t begin, std::uint64_t end, Visit visit) const {
    std::uint64_t at = base;
    for (const Extent& extent : extents) {
      const std::uint64_t low = std::max(begin, at), high = std::min(end, at + extent.bytes);
      if (low < high) visit(extent.offset + (low - at), extent.offset + (high - at), low);
      at += extent.bytes;
      if (at >= end) break;
    }
  }
};

// What an address range was before.
struct Tombstone {
  std::uint64_t end;
  bool freed;  // else unmapped
  Access by;
};

class AddressMap {
 public:
  // Reservations begin at 0x302000000, as drivers' do, where these addresses are free; else, and with `high`,
  // where the host's own mappings lie.
  explicit AddressMap(bool high) : next_low_(high ? 0 : 0x302000000) {}

  // Objects. Iterators stay valid until their object is removed.
  using Objects = std::map<std::uint64_t, Object>;
  Object& add(Object object);
  void remove(Object& object, bool freed, const Access& by);
  Object* find(std::uint64_t address);    // the object that contains `address`
  Object* starts(std::uint64_t address);  // the object that begins there
  Object* before(std::uint64_t address);  // the last one that begins at or below `address`
  Object* after(const Object& object);    // the next one, where it follows without a gap
  bool any_in(std::uint64_t begin, std::uint64_t end) const;
  std::size_t count_in(std::uint64_t begin, std::uint64_t end) const;  // that begin there
  Objects& objects() { return objects_; }
  // The newest tombstone that covers `address`.
  const Tombstone* tombstone(std::uint64_t address) const;

  // Reservations of cuMemAddressReserve.
  std::optional<std::uint64_t> reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t hint);
  bool unreserve(std::uint64_t base, std::uint64_t bytes);
  bool reserved(std::uint64_t base, std::uint64_t bytes) const;  // inside one reservation
  std::optional<Extent> reservation(std::uint64_t address) const;

  // Addresses for allocations, multiples of the granule; lowest first, reused after `give`.
  std::optional<std::uint64_t> take(std::uint64_t bytes);
  void give(std::uint64_t base, std::uint64_t bytes);

  // Whether `address` was ever the device's.
  bool device(std::uint64_t address) const;

 private:
  void bury(std::uint64_t begin, std::uint64_t end, const Tombstone& what);
  void unearth(std::uint64_t begin, std::uint64_t end);

  Objects objects_;
  std::map<std::uint64_t, Tombstone> tombstones_;
  std::map<std::uint64_t, std::uint64_t> reservations_;  // base -> bytes
  std::uint64_t next_low_;                               // the next one's place, where none is asked for
  std::map<std::uint64_t, std::uint64_t> arenas_;        // regions of allocations: base -> bytes
  std::map<std::uint64_t, std::uint64_t> free_;          // within them
  std::uint64_t next_id_ = 1;
};

// Maps an object's memory at its address, or takes the mapping away again. Compute mode only.
bool map_object(const PhysicalMemory& physical, const Object& object);
void unmap_object(const Object& object);

}  // namespace softgpu

// Physical device memory in a few sizes, recycled, under the cap.
//
// cuMemUnmap takes only whole mappings, so a chunk moves with all its handles, and a handle is never split.
// Creating one costs about 0.2 ms, so handles are kept. A request without a free handle of its size, and
// without room to create one, takes smaller ones; only if there are none but larger ones is one of these
// destroyed and replaced by smaller ones.
//
// As long as memory is not short, large handles are the cheapest. Once a plan keeps moving it, handles have
// one size, the unit: any of them serves any request, so a loop creates none however its maps differ in size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/ids.h"
#include "core/result.h"
#include "runtime/memory/memory_limits.h"

namespace pooch::runtime {

struct Piece {
  PhysicalHandle handle;
  std::uint64_t bytes;
};
using Pieces = std::vector<Piece>;  // mapped one behind the other

class HandlePool {
 public:
  // `cap`: bytes that handles and passed-through memory may take together.
  HandlePool(Device& device, std::uint64_t cap);
  ~HandlePool();
  HandlePool(const HandlePool&) = delete;
  HandlePool& operator=(const HandlePool&) = delete;

  // The sizes of chunks that `bytes` (a multiple of 2 MiB) are made of, largest first.
  std::vector<std::uint64_t> compose(std::uint64_t bytes) const { return compose(bytes, largest_class()); }
  // ... with none above `most`.
  std::vector<std::uint64_t> compose(std::uint64_t bytes, std::uint64_t most) const;
  std::uint64_t largest_class() const { return classes_.front(); }

  // From now on no handle above the unit is made; larger free ones are destroyed if room is needed.
  void use_units() { largest_ = std::min(largest_, unit(cap_)); }
  // The smallest size of which at most 16384 fill the cap: a page up to 32 GiB.
  static std::uint64_t unit(std::uint64_t cap);
  // The size of the handles that a chunk of `bytes` wants.
  std::uint64_t handle_size(std::uint64_t bytes) const { return std::min(bytes, largest_); }

  // Handles of `bytes` together, which is one of the sizes that `compose` names. Error out_of_memory: give
  // some back first.
  Result<Pieces> acquire(std::uint64_t bytes);
  // One handle of exactly so many bytes, whole pages.
  Result<Piece> acquire_whole(std::uint64_t bytes);
  void give_back(const Pieces& pieces);
  // They are still mapped where nobody may reach them: the driver refused to unmap them, so they are never
  // reused and count as taken.
  void abandon(const Pieces& pieces);

  // The device has refused memory below the cap. The cap is lowered to what exists, minus the slack
  // (memory_limits.h), and free handles make way, now and as they come back. False: it already is that low.
  bool settle_for_less();
  // `recount` counts again, for that, what is taken outside of the pool.
  void set_recount(std::function<std::uint64_t()> recount) { recount_ = std::move(recount); }

  // Bytes that `acquire` can still serve.
  std::uint64_t available() const { return limit() > attached() ? limit() - attached() : 0; }
  std::uint64_t cap() const { return cap_; }
  // Bytes that handles may take in all.
  std::uint64_t limit() const { return cap_ > outside_ ? cap_ - outside_ : 0; }
  // ... at the peak of what was taken outside of the pool.
  std::uint64_t least_limit() const { return cap_ > most_outside_ ? cap_ - most_outside_ : 0; }
  // Sets what is taken outside of the pool; free handles make way. `bytes` beyond what is now outside must be
  // available(). A decrease stays reserved, up to max(2 pages, min(cap / 16, 64 MiB), cap / 64): else handles
  // would come and go with what comes and goes within an iteration.
  Status set_outside(std::uint64_t bytes);
  // Gives up what is reserved; false: nothing was.
  bool give_up_reserved();
  // Bytes of free handles of this size.
  std::uint64_t free_bytes(std::uint64_t size) const {
    const auto found = free_lists_.find(size);
    return found == free_lists_.end() ? 0 : found->second.size() * size;
  }
  std::uint64_t outside() const { return outside_; }  // with what is reserved
  std::uint64_t most_outside() const { return most_outside_; }
  std::uint64_t taken_outside() const { return taken_outside_; }
  std::uint64_t in_use() const { return attached() + taken_outside_; }
  // Destroys free handles of `bytes` or more in all, as far as there are any; returns how many bytes.
  Result<std::uint64_t> give_up(std::uint64_t bytes);
  std::uint64_t created() const { return created_; }  // handles, free ones too
  std::uint64_t idle() const { return free_; }        // of those, free ones
  std::uint64_t peak() const { return peak_; }        // handles and outside bytes, the most there ever was

 private:
  std::uint64_t attached() const { return created_ - free_; }
  void take_free(std::uint64_t size, std::uint64_t& wanted, Pieces& pieces);
  std::size_t pieces_below(std::uint64_t most, std::uint64_t wanted) const;
  Status destroy_larger(std::uint64_t than, std::uint64_t room);
  Result<PhysicalHandle> create(std::uint64_t bytes);
  Status shrink_to(std::uint64_t bytes);
  void note_peak();

  Device& device_;
  std::uint64_t cap_;
  bool settled_ = false;                                             // the cap is below what was given
  std::vector<std::uint64_t> classes_;                               // descending
  std::uint64_t largest_;                                            // size of handle that is made
  std::map<std::uint64_t, std::vector<PhysicalHandle>> free_lists_;  // by size
  std::uint64_t created_ = 0, free_ = 0, peak_ = 0;
  std::uint64_t taken_outside_ = 0, outside_ = 0, most_outside_ = 0;  // outside_: with what is reserved
  std::function<std::uint64_t()> recount_;
};

}  // namespace pooch::runtime

// The proof of replays: what a replay made is compared, by digest, with what was dropped.
//
//   dropping --> digest of what the replays will write; while a map is not proven also a copy on the host
//   restored --> digest of what they wrote; the host waits before anybody reads it
//      equal      --> twice: the map is proven
//      different  --> with a copy: it is put back, and the map is not dropped any more
//                     without: failure(), for good -- nothing goes on with a doubtful value
//   restored, a sample of a proven map --> digest; the host continues; a difference is reported when the
//                     device gets there, before anything leaves the device: failure()
//
// Maps are proven in the first two iterations of every adopted plan, wherever it came from, except those that
// the same replays proved under the phase's previous plan. Later `sample` compares one map in every eighth
// iteration, in turn, `all` every map, both by digest alone. Where each iteration has other sizes, libraries
// may choose other kernels for them: every map is compared every time.
//
// The session's mutex guards it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config.h"
#include "core/device.h"
#include "runtime/execution/digests.h"
#include "runtime/execution/saved_copies.h"
#include "runtime/memory/address_space.h"
#include "runtime/memory/held.h"
#include "runtime/memory/host_arena.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"
#include "runtime/placement/placement.h"

namespace pooch::runtime {

// What is known of a plan's maps, by map.
struct MapTrust {
  std::vector<std::uint8_t> compared;  // comparisons that were equal, up to `proofs`
  std::vector<bool> dropped;           // the plan drops it
  std::vector<bool> refused;           // it must not be dropped
  std::uint64_t iterations = 0;        // that have followed the plan
  std::uint32_t turn = 0;              // the map that was sampled last
  bool sampling = false;               // it is compared in the iteration at hand
  bool never_enough = false;           // sizes change, and with them the kernels: each replay is compared
};

// What it works with.
struct VerificationParts {
  Device& device;
  StreamOrder& order;
  Residency& residency;
  HostArena& host;
  Placement& placement;
  AddressSpace& temporaries;
};

// Of a dropped map, from then until it is back and both digests are there.
struct Comparison {
  std::string name, function;
  std::vector<DigestPiece> pieces;
  std::vector<SavedCopy> copy;  // of every chunk, or none
  std::vector<Chunk*> chunks;
  Mark done;            // of the digests' copies to the host
  bool pinned = false;  // from `restored` on
};

class Verification {
 public:
  static constexpr std::uint64_t sample_interval = 8;
  static constexpr std::uint8_t proofs = 2;  // comparisons that prove a map

  using Parts = VerificationParts;
  struct Counts {
    std::uint64_t verified = 0;    // maps compared
    std::uint64_t mismatches = 0;  // of those, that differed
  };
  // `host_budget`: bytes that the arena may have.
  Verification(Verify how, std::uint64_t host_budget, const Parts& parts)
      : how_(how),
        device_(parts.device),
        order_(parts.order),
        digests_(parts.device, parts.order, parts.residency, parts.placement, parts.temporaries),
        copies_(parts.residency, parts.host, host_budget) {}

  bool on() const { return how_ != Verify::off; }
  // Whether what is dropped now can be compared.
  bool ready() const { return digests_.ready(); }
  Counts counts() const { return counts_; }
  // A value is doubtful: no op may run any more.
  const std::optional<Error>& failure() const { return failure_; }

  // Gets memory for digests. May release `held`. If there is none, nothing is verified until the next call.
  Status prepare(Held& held);
  // Others may use that memory until the next prepare(). False: they already may.
  bool give_up_memory() { return digests_.give_up_memory(); }

  // An iteration follows a plan. Copies leave `host_bytes` of the host arena to the plan's swaps.
  void begin(MapTrust& trust, std::uint64_t host_bytes);
  // No plan is followed now.
  void end();

  // The map's content is about to be dropped; `written` are the parts, (offset, bytes), that its replays will
  // write.
  using Extents = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  Status dropping(std::uint32_t map, std::string_view name, Range& range, const Extents& written);
  // The last replay that writes it, of this function, was launched.
  Status restored(std::uint32_t map, std::string_view function);
  // Its allocation ends.
  void forget(std::uint32_t map);

  // Samples of proven maps: judged if known to be finished, or all awaited.
  enum class Late : std::uint8_t { where_known, await };
  // The host waits for the comparisons that are due. May release `held`. Errors: failure(), device.
  Status settle(Late late, Held& held);
  // Maps whose copy was put back since the last call.
  std::vector<std::uint32_t> take_refused() { return std::exchange(refused_, {}); }

 private:
  bool wants(std::uint32_t map) const;
  bool proven(std::uint32_t map) const;
  static std::vector<DigestPiece> pieces_of(Range& range, const Extents& written,
                                            std::vector<Chunk*>& chunks);
  Status judge(std::uint32_t map, Comparison& comparison);
  bool equal(const Comparison& comparison);
  void fail(const Comparison& comparison);
  Status settle_late(Late late, Held& held);
  void release(Comparison& comparison);

  const Verify how_;
  Device& device_;
  StreamOrder& order_;
  Digests digests_;
  SavedCopies copies_;
  MapTrust* trust_ = nullptr;                        // of the plan at hand
  std::map<std::uint32_t, Comparison> comparisons_;  // by map, from dropping() on
  std::deque<std::uint32_t> due_;                    // maps to be compared
  std::deque<Comparison> late_;                      // samples; their maps may be gone
  std::vector<std::uint32_t> refused_;
  std::optional<Error> failure_;
  Counts counts_;
};

}  // namespace pooch::runtime

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
// iteration, in turn, `all` every map, both by digest alone.
//
// Digests are computed in one stream of pooch's own and copied to the host in another: these copies queue
// behind evictions, and only the host waits for them. The session's mutex guards it.
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
#include "core/digest.h"
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
};

class Verification {
 public:
  static constexpr std::uint64_t sample_interval = 8;
  static constexpr std::uint8_t proofs = 2;  // comparisons that prove a map

  struct Parts {
    Device& device;
    StreamOrder& order;
    Residency& residency;
    HostArena& host;
    Placement& placement;
    AddressSpace& temporaries;
  };
  struct Counts {
    std::uint64_t verified = 0;    // maps compared
    std::uint64_t mismatches = 0;  // of those, that differed
  };
  // `host_budget`: bytes that the arena may have.
  Verification(Verify how, std::uint64_t host_budget, const Parts& parts)
      : how_(how), host_budget_(host_budget), parts_(parts) {}
  ~Verification();
  Verification(const Verification&) = delete;
  Verification& operator=(const Verification&) = delete;

  bool on() const { return how_ != Verify::off; }
  Counts counts() const { return counts_; }
  // A value is doubtful: no op may run any more.
  const std::optional<Error>& failure() const { return failure_; }

  // Gets memory for digests. May release `held`. If there is none, nothing is verified until the next call.
  Status prepare(Held& held);
  // Others may use that memory until the next prepare(). False: they already may.
  bool give_up_memory();

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
  struct Piece {
    Address at;
    std::uint64_t bytes;
    std::uint32_t before, after;  // places of the two digests on the host
  };
  struct Saved {
    Chunk* chunk;
    HostSlot slot;
    Mark last_use;
    std::uint64_t bytes;
  };
  struct Record {
    std::string name, function;
    std::vector<Piece> pieces;
    std::vector<Saved> copy;  // of every chunk, or none
    std::vector<Chunk*> chunks;
    Mark done;            // of the digests' copies to the host
    bool pinned = false;  // from `restored` on
  };
  using Records = std::map<std::uint32_t, Record>;

  bool wants(std::uint32_t map) const;
  bool proven(std::uint32_t map) const;
  std::vector<Piece> pieces_of(Range& range, const Extents& written, std::vector<Chunk*>& chunks);
  Result<Mark> digest(const Record& record, std::uint32_t Piece::*place);
  Status save(Record& record);
  Status put_back(Record& record);
  Status judge(std::uint32_t map, Record& record);
  bool equal(const Record& record);
  void fail(const Record& record);
  Status settle_late(Late late, Held& held);
  void release(Record& record);
  std::optional<std::uint32_t> take_place();
  Address on_device(std::uint32_t place) const;
  Digest result(std::uint32_t place) const;
  void disable(const Error& why);

  const Verify how_;
  const std::uint64_t host_budget_;
  Parts parts_;
  bool working_ = true;                       // digests can be computed
  StreamHandle stream_{}, results_stream_{};  // from the first prepare() on
  std::byte* results_ = nullptr;              // on the host, page-locked: digests by place
  Marks abandoned_;  // copies of digests no longer needed: their places on the device are reused
  std::vector<std::uint32_t> free_places_;
  Range* memory_ = nullptr;  // on the device: digests by place; its chunk is pinned while `ready_`
  bool ready_ = false;

  MapTrust* trust_ = nullptr;  // of the plan at hand
  std::uint64_t host_bytes_ = 0, copied_bytes_ = 0;
  Records records_;                // by map, from dropping() on
  std::deque<std::uint32_t> due_;  // maps to be compared
  std::deque<Record> late_;        // samples; their maps may be gone
  std::vector<std::uint32_t> refused_;
  std::optional<Error> failure_;
  Counts counts_;
};

}  // namespace pooch::runtime

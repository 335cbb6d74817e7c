// The proof of replays: what a replay made is compared, by digest, with what was dropped.
//
//   dropping --> digest of what the replays will write, while a map is not proven also a copy on the host
//   restored --> digest of what they wrote; the host waits before anybody reads it
//      equal      --> twice: the map is proven
//      different  --> a copy is there: it is put back, and the map is not to be dropped any more
//                     none: failure(), for good -- nothing goes on with a doubtful value
//   restored, a sample of a proven map --> digest; the host goes on, and hears of a difference when the
//   device
//                     gets there, at the latest before something leaves the device: failure()
//
// Maps are proven in the first two iterations of a plan that is adopted, whatever it was made of, but for
// those that the phase's plan before was seen to make again by the same replays. Later `sample` compares one
// map in every eighth iteration, in turn, `all` every map, both by digest alone.
//
// Digests are made in one stream of its own and leave the device in another: their copies queue up behind the
// content that is being evicted, and nobody but the host has to wait for that. The session's mutex guards it.
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
  std::vector<std::uint8_t> compared;  // times that it was equal, up to what proves it
  std::vector<bool> dropped;           // the plan drops it
  std::vector<bool> refused;           // it is not to be dropped
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
  // A value turned out to be doubtful: no op may run any more.
  const std::optional<Error>& failure() const { return failure_; }

  // Memory for digests. May release `held`. Where there is none, nothing is verified until the next time.
  Status prepare(Held& held);
  // That memory may serve others until the next prepare(). False: it does already.
  bool give_up_memory();

  // An iteration follows a plan. Copies leave `host_bytes` of the arena to the plan's swaps.
  void begin(MapTrust& trust, std::uint64_t host_bytes);
  // It does not any more.
  void end();

  // The map's content is about to be dropped; `written` are the parts, (offset, bytes), that its replays will
  // write.
  using Extents = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  Status dropping(std::uint32_t map, std::string_view name, Range& range, const Extents& written);
  // The last replay that writes into it, of this function, was launched.
  Status restored(std::uint32_t map, std::string_view function);
  // Its allocation ends.
  void forget(std::uint32_t map);

  // Samples of proven maps: judged where the device is known to have got there, or awaited.
  enum class Late : std::uint8_t { where_known, await };
  // The host waits for the comparisons that are due. May release `held`. Errors: failure(), device.
  Status settle(Late late, Held& held);
  // Maps of which a copy was put back since the last time.
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
  bool working_ = true;                       // the device can do it
  StreamHandle stream_{}, results_stream_{};  // from the first prepare() on
  std::byte* results_ = nullptr;              // on the host, page-locked: digests by place
  Marks abandoned_;  // copies of digests that nobody wants any more: their places on the device serve again
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

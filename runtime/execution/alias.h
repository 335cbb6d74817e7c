// Alias mode: every chunk of the planned phases is mapped to the frames that the layout gave it, and shares
// them with chunks whose stays do not overlap: the next tenant waits, on the device, for the last work of the
// previous one. In steady state no handle is created. Few chunks are mapped anew between two stays; before
// that the host waits until the device is done with the chunk's addresses.
//
//   private mappings --- build ---> frames --- dismantle ---> private mappings (demand mode, no layout)
//
// Mapped privately instead: what host copies touch at arbitrary times, and buffers that do not keep one
// address, or two in turn. Not thread-safe: the session's mutex guards it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/memory/handle_pool.h"
#include "runtime/memory/held.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"
#include "runtime/placement/departures.h"
#include "runtime/script/places.h"
#include "tracker/op_log.h"

namespace pooch::runtime {

// What layouts are for: the phases, by id, and their ranges, those of slots included.
struct LayoutResidents {
  std::vector<PlacedPhase> phases;
  std::vector<Range*> ranges;
  std::vector<ProfileRange> described;  // the same ones
};

// The frames that a place has in its stays.
struct PlaceFrames {
  std::vector<std::vector<Frame*>> spots;  // distinct ones
  std::size_t common = 0;                  // first frames, which all spots have
};
// The place that a chunk has, with its twin, and where it is mapped to.
struct PlacedChunk {
  std::size_t place = 0;
  std::uint32_t spot = 0;
};

// Why an op could not have its frames.
struct InTheWay {
  Marks busy;       // work that still uses them
  std::string why;  // the layout has none for it then
};

class AliasMode {
 public:
  AliasMode(Device& device, StreamOrder& order, HandlePool& pool, Residency& residency,
            Departures& departures)
      : device_(device), order_(order), pool_(pool), residency_(residency), departures_(departures) {}

  bool built() const { return !frames_.empty(); }
  std::size_t chunks() const { return index_.size(); }
  std::size_t frames() const { return frames_.size(); }
  bool serves(const Script& script) const;

  using Residents = LayoutResidents;
  // Whether the layout is for these, and fits: bytes that it may have. Not while built(). Error:
  // out_of_memory, and why it does not.
  Result<std::uint64_t> fits(const PlanLayout& layout, const Residents& residents) const;
  // A layout that fits is taken. The device must be idle. May release `held`, for copies to end. Error:
  // out_of_memory, it does not fit, or the host has no room to save live content; device. After an error
  // mappings are private as before.
  Status build(const PlanLayout& layout, Residents residents, Held& held);
  // Bytes of the frame that the latest build() could not have; 0: it had all.
  std::uint64_t wanted_frame() const { return wanted_frame_; }
  // Private mappings again. The device must be idle.
  Status dismantle();

  enum class Admission : std::uint8_t {
    done,        // the chunks have their frames
    busy,        // ask again when the device is beyond `busy()`
    unforeseen,  // the layout has no frames for them at that step
  };
  // The operands are about to be used at this step of the script (nullptr: between iterations): gives their
  // chunks the frames. Error: the device's mappings are in doubt.
  Result<Admission> admit(const Script* script, std::int32_t step,
                          std::span<const tracker::Operand> operands);
  // The chunk's prefetch: as `admit`, and its content comes back.
  Result<Admission> fetch(const Script* script, std::int32_t step, Chunk& chunk);
  const Marks& busy() const { return answer_.busy; }
  // Why the latest was unforeseen.
  const std::string& why() const { return answer_.why; }
  std::uint64_t moves() const { return moves_; }  // frames that were mapped anew for a chunk

 private:
  Chunk& chunk_of(const Place& place) const { return residents_.ranges[place.range]->chunks[place.piece]; }
  Chunk& twin_of(const Place& place) const { return residents_.ranges[place.twin]->chunks[place.piece]; }
  void index_places();
  std::vector<Range*> ranges() const;
  Status cut_chunks();
  Status save_and_unmap(Held& held);
  Status take_frames(const Layout& layout);
  Status map_all(const PlanLayout& layout);
  Result<Admission> give_frames(Chunk& chunk, std::size_t phase, std::int32_t step);
  Result<Admission> move(Chunk& chunk, PlacedChunk& placed, std::uint32_t spot);
  Admission unforeseen(const Chunk& chunk, std::string_view why);
  static bool begin_tenancy(Chunk& chunk);
  std::size_t index_of(const Script* script) const;

  Device& device_;
  StreamOrder& order_;
  HandlePool& pool_;
  Residency& residency_;
  Departures& departures_;
  Residents residents_;
  std::vector<Place> places_;
  std::vector<PlaceFrames> frames_of_;  // by place
  std::map<const Chunk*, PlacedChunk> index_;
  std::vector<Chunk*> chunks_;  // of index_, in the order of places
  std::vector<Frame> frames_;
  InTheWay answer_;         // of the latest
  std::size_t latest_ = 0;  // phase that was followed last
  std::uint64_t moves_ = 0;
  std::uint64_t wanted_frame_ = 0;
};

}  // namespace pooch::runtime

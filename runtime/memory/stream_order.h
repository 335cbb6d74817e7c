// Which work must wait for which on the device, and what the host already knows to be finished.
//
// Every piece of work that pooch has seen in a stream has a ticket; a Mark names a point in a stream. Events
// are recorded lazily, when a point is first asked for, and cover everything submitted until then; with
// `eager` on, one is recorded after every op, so that a later question is answered by the exact point. An
// event between two kernels costs a device 2 us (docs/measurements.md), so the one stream whose points are
// asked for at once, or never, can be left out.
//
// Not thread-safe: the session's mutex guards it. Events stay valid while a host wait runs outside of the
// mutex, because they are recycled only once `note_finished` or `finished` has seen them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/ids.h"
#include "core/result.h"

namespace pooch::runtime {

enum class StreamIndex : std::uint32_t {};

// A point in a stream: everything up to this piece of work. Ticket 0 is the beginning.
struct Mark {
  StreamIndex stream{};
  std::uint64_t ticket = 0;
};

// Several points, at most one per stream: the latest.
class Marks {
 public:
  void add(Mark mark) {
    if (count_ > 0 && few_[0].stream == mark.stream)
      few_[0].ticket = std::max(few_[0].ticket, mark.ticket);
    else
      add_beside(mark);
  }
  void add(const Marks& others) {
    for (const Mark& m : others) add(m);
  }
  void clear() { count_ = 0, many_.clear(); }
  bool empty() const { return count_ == 0 && many_.empty(); }
  const Mark* begin() const { return all().data(); }
  const Mark* end() const { return all().data() + all().size(); }

 private:
  void add_beside(Mark mark);
  std::span<const Mark> all() const {
    return many_.empty() ? std::span(few_.data(), count_) : std::span<const Mark>(many_);
  }

  // Nearly all work is in one stream, and copies are in another.
  std::array<Mark, 2> few_{};
  std::uint32_t count_ = 0;  // of few_ that are in use; none once there are more, which are all in many_
  std::vector<Mark> many_;
};

// What is known of one stream.
struct OrderedStream {
  struct Recorded {
    std::uint64_t ticket;
    EventHandle event;
  };

  StreamHandle handle;
  std::uint64_t last = 0;                // ticket of the latest work
  std::uint64_t done = 0;                // known to be finished up to here
  std::deque<Recorded> events;           // not yet known to be finished, in order
  std::vector<std::uint64_t> following;  // by stream index: how far this stream waits for that one
  bool own = false;                      // not the program's

  // Whether there is an event at the point or behind it.
  bool covers(std::uint64_t ticket) const { return !events.empty() && events.back().ticket >= ticket; }
  // The first such event; the end of `events` where there is none.
  std::deque<Recorded>::const_iterator covering(std::uint64_t ticket) const {
    return std::partition_point(events.begin(), events.end(),
                                [ticket](const Recorded& r) { return r.ticket < ticket; });
  }
};

class StreamOrder {
 public:
  explicit StreamOrder(Device& device) : device_(device) {}
  ~StreamOrder();

  // The stream's index. The per-thread stream has one per calling thread.
  StreamIndex index(StreamHandle stream);
  StreamHandle handle(StreamIndex stream) const { return at(stream).handle; }
  // Work has just been put into the stream: its point. It holds even where the driver refuses the event: then
  // a later event covers the point, or the host waits for the whole device.
  Mark launched(StreamIndex stream) { return launched(stream, eager_ && stream != relaxed_); }
  // The same with an event at exactly this point: who follows it waits for nothing that comes after it.
  Mark launched_exactly(StreamIndex stream) { return launched(stream, true); }
  Mark latest(StreamIndex stream) const { return {stream, at(stream).last}; }
  // From now on record an event after every piece of work.
  void set_eager(bool eager) { eager_ = eager; }
  bool eager() const { return eager_; }
  // But not in this stream, from now on; empty: in all. Has no effect after insist().
  void relax(std::optional<StreamIndex> stream) { relaxed_ = insists_ ? std::nullopt : stream; }
  // Later questions may have to be answered without recording an event: never relax again.
  void insist() {
    insists_ = true;
    relaxed_.reset();
  }

  // Records events behind all work that has none behind it, so that later questions need not touch a stream.
  void settle();

  // Later work of `waiter` follows `mark` on the device. Costs nothing if that is known to hold already.
  Status follow(StreamIndex waiter, Mark mark) {
    if (waiter == mark.stream || mark.ticket <= at(mark.stream).done) return Done{};
    return follow_unfinished(waiter, mark);
  }
  Status follow(StreamIndex waiter, const Marks& marks) {
    for (const Mark& m : marks)
      if (const auto status = follow(waiter, m); !status) return status;
    return Done{};
  }
  // ... follows all that was launched until now, in every stream.
  Status follow_all(StreamIndex waiter);
  // Whether the device has got beyond the point. Asks the driver only where it is not known.
  Result<bool> finished(Mark mark);
  Result<bool> finished(const Marks& marks);
  // An event that completes at or after the point; `none` where the point is known to be finished. Where the
  // calling thread cannot record one, since the stream is destroyed or another thread's, the host waits for
  // the whole device, with the session's mutex held: this happens only after the driver refused an event.
  // Error: the driver's, or internal where the program itself may block the device.
  Result<EventHandle> event_for(Mark mark);
  // The host has seen the point finished (it synchronised).
  void note_finished(Mark mark);

  // A host function or wait-value stands in the stream: its later work may wait for the program itself.
  void note_host_blocking(StreamIndex stream);
  // Whether any stream may still be blocked by the program.
  Result<bool> host_blocked();

  // What is in the stream is pooch's own work.
  void set_own(StreamIndex stream) { at(stream).own = true; }
  // The host is about to wait for the device until these points: counts it where one is in a stream of
  // pooch's own, and where the program's streams have nothing left to do.
  Status note_host_wait(const Marks& until);
  std::uint64_t idle_waits() const { return idle_waits_; }
  std::uint64_t own_waits() const { return own_waits_; }
  // How often the program's work had to follow pooch's own.
  std::uint64_t waits_for_own() const { return waits_for_own_; }

  // The program is about to destroy the stream. Its marks stay valid.
  void retire(StreamHandle stream);

 private:
  using Stream = OrderedStream;

  Stream& at(StreamIndex i) { return streams_[static_cast<std::uint32_t>(i)]; }
  const Stream& at(StreamIndex i) const { return streams_[static_cast<std::uint32_t>(i)]; }
  std::pair<StreamHandle, std::uint64_t> key(StreamHandle stream) const;
  Mark launched(StreamIndex stream, bool exact);
  Status follow_unfinished(StreamIndex waiter, Mark mark);
  bool can_record(const Stream& stream) const;
  Result<EventHandle> record(Stream& stream);
  void try_to_record(Stream& stream);
  Status drain(Stream& stream);
  void advance(Stream& stream, std::uint64_t ticket);

  Device& device_;
  bool eager_ = false, insists_ = false;
  std::optional<StreamIndex> relaxed_;
  std::deque<Stream> streams_;
  std::map<std::pair<StreamHandle, std::uint64_t>, StreamIndex> index_;
  std::vector<EventHandle> spare_events_;
  std::vector<Mark> host_blocking_;
  std::uint64_t idle_waits_ = 0, own_waits_ = 0, waits_for_own_ = 0;
  bool refusal_reported_ = false;
};

}  // namespace pooch::runtime

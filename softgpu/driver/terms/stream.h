// Streams, events and the work in them.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "softgpu/driver/terms/clock.h"
#include "softgpu/driver/terms/origin.h"
#include "softgpu/image.h"

namespace softgpu {

struct Capture;
struct Context;
struct Stream;

using CapturePtr = std::shared_ptr<Capture>;
// A point in a capture: by the stream's id, how much of what that stream put in comes before it.
using CapturedPoint = std::map<std::uint32_t, std::size_t>;

// A point in a stream that others may wait for.
struct Record {
  bool done = false;
  Nanoseconds time = 0;
  VectorClock clock;
  CapturePtr capture;  // it is a point in that, and never done
  CapturedPoint captured;
};
using RecordPtr = std::shared_ptr<Record>;

// What work must follow: an event's record, or all work of a stream up to `sequence`.
struct Dependency {
  RecordPtr record;
  std::shared_ptr<Stream> stream;
  std::uint64_t sequence = 0;
};

enum class Engine { none, compute, to_device, to_host };

struct CopyPart {
  std::uint64_t to, from, bytes;
};

// What a work does to content, where nothing is computed (provenance.h).
struct Content {
  enum class Kind { none, kernel, set, unknown };
  Kind kind = Kind::none;
  std::uint64_t identity = 0;    // a kernel's name and scalars; the four bytes that a set repeats
  std::optional<Origin> staged;  // of a copy whose source was read at the call
  std::shared_ptr<std::uint64_t> tells;
  std::vector<std::shared_ptr<const std::uint64_t>> hears;
  std::vector<Stage> stages;
  std::vector<Footprint::Comparison> comparisons;
};

struct Work {
  Access by;  // name and call; agent, stream and epoch are filled in when it runs
  Engine engine = Engine::none;
  bool launch = false;           // of a kernel, which takes a place in the device's queue
  Nanoseconds duration = 0;      // with nobody else on the link
  std::uint64_t link_bytes = 0;  // of a copy over it
  std::vector<Touch> touches;
  std::vector<CopyPart> copies;
  Content content;

  std::function<void()> run;   // the numerics or the movement of data
  std::function<bool()> gate;  // holds the stream until true (wait-value)
  std::function<void()> host_function;
  // After all else, with the stream's clock at that point.
  std::function<void(const Access&, Stream&)> finish;
  RecordPtr record;

  std::vector<Dependency> after;
  VectorClock submitted;  // what the host had seen
  Nanoseconds submit_time = 0;
  std::uint64_t sequence = 0;
};

struct Stream {
  std::uint32_t id = 0;  // public and unique
  AgentId agent = 0;
  unsigned flags = 0;
  int priority = 0;
  Context* context = nullptr;
  int device = 0;
  bool legacy = false;
  bool blocking = true;  // ordered with the legacy stream
  bool destroyed = false;
  bool in_host_function = false;

  VectorClock clock;
  Nanoseconds began = 0, time = 0;  // when its last executed work begins and ends
  std::uint64_t submitted = 0;      // sequence of the last work handed in
  std::uint64_t executed = 0;       // sequence of the last work executed
  std::deque<Work> queue;
  CapturePtr capture;      // that its work goes into; null: it is carried out
  CapturedPoint captured;  // what its next captured work follows

  bool idle() const { return executed == submitted; }
};
using StreamPtr = std::shared_ptr<Stream>;

struct Event {
  unsigned flags = 0;
  Context* context = nullptr;
  RecordPtr record;  // of the latest cuEventRecord; null before the first
};

}  // namespace softgpu

// Capture: streams whose work goes into a graph instead of being carried out. A graph is that work in the
// order in which it was handed in, which respects whatever order the streams and events among it asked for;
// it runs in that order, one after the other, in the stream that it is launched into.
//
// Everything here happens under the machine's lock.
#pragma once

#include <cuda.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "softgpu/driver/terms/stream.h"

namespace softgpu {

// Memory of captured allocations. It ends with the last graph that has one of their nodes, and all that was
// made from those; or where it is live then, when the program frees it.
struct GraphBlock {
  CUdeviceptr address = 0;
  std::uint64_t bytes = 0;
  bool live = false;  // a launch has allocated it, and nothing has freed it since
  std::function<void()> end;
  ~GraphBlock() {
    if (end) end();
  }
};
using GraphBlockPtr = std::shared_ptr<GraphBlock>;

struct Capture {
  StreamPtr origin;  // that it was begun in
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  std::uint64_t id = 0;
  bool valid = true;
  bool active = true;
  std::set<StreamPtr> streams;
  std::vector<Work> nodes;
  std::multimap<std::uint64_t, GraphBlockPtr> free;  // by bytes: what captured frees gave back

  CUresult take(Stream& stream, Work work);
  // An event: the point behind what the stream has put in.
  CUresult note(const Stream& stream, Record& record);
  // `status`, of a call that no capture survives.
  CUresult spoilt(CUresult status) {
    valid = false;
    return status;
  }
};

// Later work of `stream` follows `record`, one of them being captured: the stream joins the record's capture.
CUresult join_capture(const StreamPtr& stream, Record& record);

// Those that go on.
class Captures {
 public:
  CUresult begin(const StreamPtr& stream, CUstreamCaptureMode mode);
  // Takes all its streams back. `*nodes` only where it succeeded.
  CUresult end(const StreamPtr& stream, std::vector<Work>* nodes);
  // Whether this thread may call a function that might wait for the device. Where not, the captures in its
  // way are spoilt.
  bool admit(const char* function);

 private:
  std::vector<CapturePtr> active_;
  std::uint64_t begun_ = 0;
};

// How this thread respects captures (cuThreadExchangeStreamCaptureMode).
CUstreamCaptureMode& capture_mode_of_thread();

struct Graph {
  std::vector<Work> nodes;
};
// What a node made by hand is of its graph, and of those made from that.
struct GraphPart {
  std::size_t first, count;
};

// Graphs of both kinds by handle: as they were made, and those that can run.
class Graphs {
 public:
  template <class Handle>
  Handle add(Graph graph) {
    auto made = std::make_unique<Graph>(std::move(graph));
    const auto handle = reinterpret_cast<Handle>(made.get());
    all_.emplace(handle, std::move(made));
    return handle;
  }
  // Null where the handle means none.
  Graph* find(const void* handle) {
    const auto found = all_.find(handle);
    return found == all_.end() ? nullptr : found->second.get();
  }
  bool remove(const void* handle) { return all_.erase(handle) != 0; }

  CUgraphNode name(const GraphPart& part) {
    parts_.push_back(std::make_unique<GraphPart>(part));
    return reinterpret_cast<CUgraphNode>(parts_.back().get());
  }
  const GraphPart* part(CUgraphNode node) const {
    for (const auto& each : parts_)
      if (reinterpret_cast<CUgraphNode>(each.get()) == node) return each.get();
    return nullptr;
  }

 private:
  std::map<const void*, std::unique_ptr<Graph>> all_;
  std::vector<std::unique_ptr<GraphPart>> parts_;
};

}  // namespace softgpu

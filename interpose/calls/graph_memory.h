// What CUDA graphs keep on the device: shared by those that come of captures and by nodes made by hand.
#pragma once

#include "interpose/hooks/driver_api.h"

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/call.h"
#include "runtime/session/session.h"

namespace pooch::interpose {

// What one capture touched, or one node.
class GraphMemory {
 public:
  explicit GraphMemory(runtime::Session& session) : session_(session) {}
  ~GraphMemory() { session_.let_go(held_); }
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  Status hold(std::span<const Access> accesses, bool unforeseen) {
    const std::lock_guard lock(mutex_);  // the streams of a capture may be several threads'
    unforeseen_ |= unforeseen;
    return session_.hold(accesses, held_);
  }
  // Once the capture has ended:
  const std::vector<runtime::Kept>& held() const { return held_; }
  bool unforeseen() const { return unforeseen_; }  // a call of it may touch more

 private:
  runtime::Session& session_;
  std::mutex mutex_;
  std::vector<runtime::Kept> held_;
  bool unforeseen_ = false;
};

// Stands for every graph: of a node nobody knows which one it is in.
inline constexpr const void* any_graph = nullptr;

using GraphMemories = std::vector<std::shared_ptr<GraphMemory>>;

// `graph`, a CUgraph or a CUgraphExec, is known from now on and names `memory`, unless that is nullptr; so
// does what is made of it later.
void keep_for_graph(const void* graph, std::shared_ptr<GraphMemory> memory);
// `copy` holds, or can run, what `original` does as well; `instead` of what it did before.
void copied_graph(const void* copy, const void* original, bool instead);
GraphMemories memories_of(const void* graph);
// Whether the graph's making was seen.
bool is_known_graph(const void* graph);
// Ahead of the driver's own call: afterwards the handle may mean another graph.
void forget_graph(const void* graph);
// `body` runs as part of `graph`.
void note_body(CUgraph body, CUgraph graph);
// Which graph a node is in; any_graph where that was not seen.
void note_node(CUgraphNode node, CUgraph graph);
const void* graph_of(CUgraphNode node);

}  // namespace pooch::interpose

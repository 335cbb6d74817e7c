#include "interpose/calls/graph_memory.h"

#include <map>
#include <utility>

namespace pooch::interpose {
namespace {

struct Graphs {
  std::mutex mutex;                               // a leaf
  std::map<const void*, GraphMemories> memories;  // by CUgraph or CUgraphExec
  std::map<const void*, const void*> roots;       // of graphs that are bodies of nodes, outermost
  std::map<CUgraphNode, CUgraph> nodes;           // those that may be changed, of which graph

  // What runs when this one's node does is named by the graph that the node is in.
  GraphMemories& of(const void* graph) { return memories[root(graph)]; }
  const void* root(const void* graph) const {
    const auto found = roots.find(graph);
    return found == roots.end() ? graph : found->second;
  }
};
Graphs& graphs() {
  static auto* const one = new Graphs;  // never destroyed, like all that hooks use
  return *one;
}

}  // namespace

void keep_for_graph(const void* graph, std::shared_ptr<GraphMemory> memory) {
  const std::lock_guard lock(graphs().mutex);
  GraphMemories& named = graphs().of(graph);
  if (memory != nullptr) named.push_back(std::move(memory));
}

GraphMemories memories_of(const void* graph) {
  const std::lock_guard lock(graphs().mutex);
  const auto found = graphs().memories.find(graph);
  return found == graphs().memories.end() ? GraphMemories{} : found->second;
}

void copied_graph(const void* copy, const void* original, bool instead) {
  GraphMemories gone;
  const std::lock_guard lock(graphs().mutex);
  const auto found = graphs().memories.find(original);
  if (found == graphs().memories.end()) return;
  const GraphMemories from = found->second;
  GraphMemories& to = graphs().of(copy);
  if (instead) gone = std::exchange(to, {});
  to.insert(to.end(), from.begin(), from.end());
}

void forget_graph(const void* graph) {
  GraphMemories gone;  // let go outside of the mutex
  const std::lock_guard lock(graphs().mutex);
  std::erase_if(graphs().nodes, [graph](const auto& node) { return node.second == graph; });
  std::erase_if(graphs().roots, [graph](const auto& body) { return body.second == graph; });
  if (const auto found = graphs().memories.find(graph); found != graphs().memories.end()) {
    gone = std::move(found->second);
    graphs().memories.erase(found);
  }
}

bool is_known_graph(const void* graph) {
  const std::lock_guard lock(graphs().mutex);
  return graphs().memories.contains(graph);
}

void note_body(CUgraph body, CUgraph graph) {
  const std::lock_guard lock(graphs().mutex);
  graphs().roots.insert_or_assign(body, graphs().root(graph));
}

void note_node(CUgraphNode node, CUgraph graph) {
  const std::lock_guard lock(graphs().mutex);
  graphs().nodes.insert_or_assign(node, graph);
}

const void* graph_of(CUgraphNode node) {
  const std::lock_guard lock(graphs().mutex);
  const auto found = graphs().nodes.find(node);
  return found == graphs().nodes.end() ? any_graph : found->second;
}

}  // namespace pooch::interpose

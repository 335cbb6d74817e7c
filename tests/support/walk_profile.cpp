#include "tests/support/walk_profile.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace pooch::test {
namespace {

// Peak of what is allocated, from the events alone.
std::uint64_t walk_memory(const PhaseProfile& phase) {
  std::uint64_t now = 0, peak = 0;
  std::vector<bool> there(phase.buffers.size());
  for (std::size_t b = 0; b < phase.buffers.size(); ++b) {
    there[b] = phase.buffers[b].from == outside;
    if (there[b]) now += phase.buffers[b].bytes;
  }
  for (const MemoryEvent& event : phase.memory) {
    if (there.at(event.buffer) == event.allocated) throw std::logic_error("allocated or freed twice");
    there[event.buffer] = event.allocated;
    const std::uint64_t bytes = phase.buffers.at(event.buffer).bytes;
    now = event.allocated ? now + bytes : now - bytes;
    peak = std::max(peak, now);
  }
  return peak;
}

std::uint64_t walk_graph(const PhaseProfile& phase) {
  std::uint64_t sum = 0;
  const LayerGraph& graph = phase.graph;
  for (const Layer& layer : graph.layers) {
    for (const std::uint32_t input : layer.inputs) sum += graph.maps.at(input).bytes;
    sum += graph.maps.at(layer.output).bytes;
    for (const std::int32_t p : layer.forward) sum += phase.ops.at(static_cast<std::size_t>(p)).function;
    for (const std::int32_t p : layer.backward) sum += phase.ops.at(static_cast<std::size_t>(p)).function;
  }
  for (const Map& map : graph.maps) {
    const Map& memory = graph.maps.at(map.memory);
    if (graph.maps.at(memory.memory).name != memory.name)
      throw std::logic_error("memory of a part of memory");
    for (const std::uint32_t v : map.versions) sum += phase.versions.at(v).bytes;
  }
  for (const auto& edge : graph.edges) {
    if (edge.from >= edge.to) throw std::logic_error("an edge backwards");
    sum += graph.layers.at(edge.to).bytes;
  }
  return sum;
}

std::uint64_t walk_phase(const PhaseProfile& phase) {
  std::uint64_t sum = walk_memory(phase) + walk_graph(phase);
  std::vector<bool> written(phase.versions.size());
  for (std::size_t v = 0; v < phase.versions.size(); ++v) written[v] = phase.versions[v].producer == outside;
  for (const ProfileOp& op : phase.ops) {
    sum += phase.functions.at(op.function).size();
    for (const std::uint32_t v : op.reads) {
      if (!written.at(v)) throw std::logic_error("read before it is written");
    }
    for (const std::uint32_t v : op.writes) written.at(v) = true;
    for (const std::uint32_t b : op.scratch) sum += phase.buffers.at(b).bytes;
  }
  for (const ProfileVersion& version : phase.versions) {
    if (version.offset + version.bytes > phase.buffers.at(version.buffer).bytes)
      throw std::out_of_range("a region outside of its buffer");
    for (const std::int32_t p : version.readers) sum += phase.ops.at(static_cast<std::size_t>(p)).stream;
    if (version.producer != outside) sum += phase.ops.at(static_cast<std::size_t>(version.producer)).stream;
  }
  for (const ProfileCopy& copy : phase.copies) {
    if (copy.version) sum += phase.versions.at(*copy.version).bytes;
  }
  if (phase.turn != outside) sum += phase.ops.at(static_cast<std::size_t>(phase.turn)).key;
  return sum;
}

}  // namespace

std::uint64_t walk(const Profile& profile) {
  std::uint64_t sum = 0;
  for (const PhaseProfile& phase : profile.phases) {
    sum += walk_phase(phase);
    for (const ProfileOp& op : phase.ops) {
      if (op.site != 0) sum += profile.sites.at(op.site - 1).frames.size();
      if (op.trials == 0) continue;
      const std::vector<Algorithm>& tried = profile.trials.at(op.trials - 1).algorithms;
      sum += tried.front().workspace;
      if (op.algorithm != 0) sum += tried.at(op.algorithm - 1).name.size();
    }
  }
  for (const CallSite& site : profile.sites)
    for (const CallFrame& frame : site.frames) sum += profile.modules.at(frame.module).path.size();
  return sum;
}

}  // namespace pooch::test

#include "graph_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "core/bytes.h"

namespace pooch::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string shape_text(const Shape& shape) {
  if (shape.rank == 0) return "?";
  return fmt::format("{}", fmt::join(shape.sizes.begin(), shape.sizes.begin() + shape.rank, "x"));
}

// What of a layer's output waits for backward.
const char* kept_text(const LayerGraph& graph, const Layer& layer) {
  const Map& map = graph.maps[layer.output];
  if (layer.forward.empty()) return map.kept ? "kept (a view)" : "a view";
  if (map.memory == layer.output) return map.kept ? "kept" : "";
  // A concatenation comes after its parts.
  if (map.memory < layer.output) return map.kept ? "kept, in place" : "in place";
  return map.kept ? "kept, a part" : "a part";
}

// Feature maps, each piece of memory once: several maps may lie in one.
std::uint64_t kept_bytes(const LayerGraph& graph) {
  std::vector<bool> counted(graph.maps.size());
  std::uint64_t sum = 0;
  for (const Map& map : graph.maps) {
    if (!map.kept || counted[map.memory]) continue;
    counted[map.memory] = true;
    sum += graph.maps[map.memory].bytes;
  }
  return sum;
}

using Row = std::array<std::string, 7>;

Row row_of(const LayerGraph& graph, const Layer& layer) {
  return {layer.name,
          layer.kind,
          shape_text(layer.shape),
          format_bytes(layer.bytes),
          fmt::format("{:.1f}", layer.forward_us),
          fmt::format("{:.1f}", layer.backward_us),
          kept_text(graph, layer)};
}

void put_row(std::string& out, const Row& row, const std::array<std::size_t, 7>& widths) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool right = i >= 3 && i <= 5;
    line += right ? fmt::format("{:>{}}  ", row[i], widths[i]) : fmt::format("{:<{}}  ", row[i], widths[i]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + "\n";
}

template <std::size_t n>
Json first_of(const std::array<std::int32_t, n>& values, std::size_t count) {
  return std::vector<std::int32_t>(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
}

Json layer_json(const Layer& layer) {
  Json json{{"name", layer.name},
            {"kind", layer.kind},
            {"inputs", layer.inputs},
            {"output", layer.output},
            {"shape", first_of(layer.shape.sizes, layer.shape.rank)},
            {"bytes", layer.bytes},
            {"forward_us", layer.forward_us},
            {"backward_us", layer.backward_us},
            {"forward", layer.forward},
            {"backward", layer.backward}};
  const Window& window = layer.window;
  if (window.rank == 0) return json;
  json["window"] = {{"size", first_of(window.size, window.rank)},
                    {"stride", first_of(window.stride, window.rank)},
                    {"padding", first_of(window.padding, window.rank)}};
  const auto spread = [](std::int32_t dilation) { return dilation > 1; };
  if (std::any_of(window.dilation.begin(), window.dilation.end(), spread))
    json["window"]["dilation"] = first_of(window.dilation, window.rank);
  if (layer.kind == "convolution") json["groups"] = window.groups;
  return json;
}

std::string dot_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string graph_table(const PhaseProfile& phase) {
  const LayerGraph& graph = phase.graph;
  Row total{fmt::format("{} layers", graph.layers.size()), "", "", "", "", "", ""};
  std::uint64_t bytes = 0;
  double forward_us = 0, backward_us = 0;
  std::vector<Row> rows{{"layer", "kind", "shape", "bytes", "forward us", "backward us", "in backward"}};
  for (const Layer& layer : graph.layers) {
    rows.push_back(row_of(graph, layer));
    // A map in another's memory needs none of its own.
    if (graph.maps[layer.output].memory == layer.output) bytes += layer.bytes;
    forward_us += layer.forward_us;
    backward_us += layer.backward_us;
  }
  total[3] = format_bytes(bytes);
  total[4] = fmt::format("{:.1f}", forward_us);
  total[5] = fmt::format("{:.1f}", backward_us);
  total[6] = format_bytes(kept_bytes(graph)) + " kept";
  rows.push_back(total);
  std::array<std::size_t, 7> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const auto kept = std::count_if(graph.maps.begin(), graph.maps.end(), [](const Map& m) { return m.kept; });
  std::string out =
      fmt::format("phase {} ({}): {} ops, {} feature maps, {:.1f} us per iteration, seen {} times\n",
                  phase.id, phase.kind, phase.ops.size(), kept, phase.iteration_us, phase.seen);
  for (const Row& row : rows) put_row(out, row, widths);
  return out;
}

std::string graph_json(const PhaseProfile& phase) {
  const LayerGraph& graph = phase.graph;
  Json layers = Json::array(), maps = Json::array(), edges = Json::array();
  for (const Layer& layer : graph.layers) layers.push_back(layer_json(layer));
  for (std::size_t id = 0; id < graph.maps.size(); ++id) {
    const Map& map = graph.maps[id];
    maps.push_back(
        {{"id", id}, {"name", map.name}, {"bytes", map.bytes}, {"kept", map.kept}, {"memory", map.memory}});
  }
  for (const auto& edge : graph.edges)
    edges.push_back({graph.layers[edge.from].name, graph.layers[edge.to].name});
  const Json whole{
      {"phase", phase.id}, {"kind", phase.kind}, {"layers", layers}, {"maps", maps}, {"edges", edges}};
  return whole.dump(2) + "\n";
}

std::string graph_dot(const PhaseProfile& phase) {
  const LayerGraph& graph = phase.graph;
  std::string out = "digraph " + dot_text(phase.id) + " {\n  node [shape=box];\n";
  const auto to = std::back_inserter(out);
  std::vector<bool> made(graph.maps.size());
  for (const Layer& layer : graph.layers) made[layer.output] = true;
  for (std::size_t m = 0; m < graph.maps.size(); ++m) {
    if (!made[m]) fmt::format_to(to, "  map{} [label={}, shape=ellipse];\n", m, dot_text(graph.maps[m].name));
  }
  for (std::size_t l = 0; l < graph.layers.size(); ++l) {
    const Layer& layer = graph.layers[l];
    const std::string label = dot_text(layer.name);
    // The label's second line, inside of its quotes.
    fmt::format_to(to, "  layer{} [label={}\\n{}, {}\"{}];\n", l, label.substr(0, label.size() - 1),
                   shape_text(layer.shape), format_bytes(layer.bytes),
                   graph.maps[layer.output].kept ? ", style=bold" : "");
    for (const std::uint32_t input : layer.inputs) {
      if (!made[input]) fmt::format_to(to, "  map{} -> layer{};\n", input, l);
    }
  }
  for (const auto& edge : graph.edges) fmt::format_to(to, "  layer{} -> layer{};\n", edge.from, edge.to);
  return out + "}\n";
}

}  // namespace pooch::tools

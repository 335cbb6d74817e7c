#include "tracker/layer_names.h"

#include <fmt/core.h>

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace pooch::tracker {
namespace {

// No map with a destructor: profiles are written in exit handlers too.
constexpr std::pair<std::string_view, std::string_view> short_names[] = {
    {"convolution", "conv"},     {"batch_norm", "bn"},        {"max_pooling", "pool"},
    {"addition", "add"},         {"average_pooling", "pool"}, {"global_average", "pool"},
    {"concatenation", "concat"}, {"response_norm", "norm"},   {"linear", "fc"}};

std::string short_name(const std::string& kind) {
  for (const auto& [whole, brief] : short_names)
    if (kind == whole) return std::string(brief);
  return kind;
}

// Which of the sizes that feature maps have, in order of appearance; 0: no spatial size.
class Stages {
 public:
  int of(const Shape& shape) {
    std::array<std::int32_t, max_rank> spatial{};
    bool any = false;
    for (int i = 2; i < shape.rank; ++i) spatial[i] = shape.sizes[i], any |= shape.sizes[i] > 1;
    if (!any) return 0;
    return known_.try_emplace(spatial, static_cast<int>(known_.size()) + 1).first->second;
  }

 private:
  std::map<std::array<std::int32_t, max_rank>, int> known_;
};

template <class Values>
std::string joined(const Values& values, int count, const char* between) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}", i > 0 ? between : "", values[i]);
  return text;
}

// One number where all dimensions agree.
std::string strides(const Window& window) {
  for (int i = 1; i < window.rank; ++i)
    if (window.stride[i] != window.stride[0]) return joined(window.stride, window.rank, "×");
  return fmt::format("{}", window.stride[0]);
}

// " 3×3/1 256→256"; `input` is the shape of the first input, `filter` that of the weights.
std::string details(const Layer& layer, const Shape& input, const Shape& filter) {
  std::string text;
  if (layer.window.rank > 0)
    text += fmt::format(" {}/{}", joined(layer.window.size, layer.window.rank, "×"), strides(layer.window));
  if (layer.shape.rank < 2) return text;
  if (layer.kind == "convolution" && filter.rank > 1) {
    text += fmt::format(" {}→{}", filter.sizes[1] * layer.window.groups, layer.shape.sizes[1]);
    if (layer.window.groups > 1) text += fmt::format(" g{}", layer.window.groups);
  } else if (layer.kind == "linear" && input.rank > 1) {
    std::int64_t from = 1;  // it sees its input flattened
    for (int i = 1; i < input.rank; ++i) from *= input.sizes[i];
    text += fmt::format(" {}→{}", from, layer.shape.sizes[1]);
  }
  return text;
}

}  // namespace

void name_layers(const PhaseProfile& phase, LayerGraph& graph) {
  Stages stages;
  std::map<std::pair<std::string, int>, int> counts;
  std::map<std::uint32_t, const Layer*> producers;
  for (Layer& layer : graph.layers) {
    const int stage = stages.of(layer.shape);
    const std::string kind = short_name(layer.kind);
    const int number = ++counts[{kind, stage}];
    std::string base = stage > 0 ? fmt::format("{}{}_{}", kind, stage, number)
                                 : kind + (number > 1 || kind == "fc" ? fmt::format("{}", number) : "");
    Shape input;
    if (!layer.inputs.empty())
      if (const auto from = producers.find(layer.inputs[0]); from != producers.end())
        input = from->second->shape;
    graph.maps[layer.output].name = base + ".out";
    const Shape filter = layer.forward.empty() ? Shape{} : phase.ops[layer.forward.front()].filter;
    layer.name = base + details(layer, input, filter);
    producers[layer.output] = &layer;
  }
  int inputs = 0;
  for (Map& map : graph.maps)
    if (map.name.empty()) map.name = ++inputs == 1 ? "input" : fmt::format("input{}", inputs);
}

}  // namespace pooch::tracker

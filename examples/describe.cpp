#include "describe.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace train {
namespace {

using Json = nlohmann::ordered_json;

Shape of_batch(Shape image, int batch) {
  image.n = batch;
  return image;
}

std::vector<int> sizes_of(Shape shape) {
  if (shape.d == 0) return {shape.n, shape.c, shape.h, shape.w};
  return {shape.n, shape.c, shape.d, shape.h, shape.w};
}

}  // namespace

nlohmann::ordered_json describe(const std::string& name, const Network& network, int batch) {
  Json layers = Json::array();
  Json maps = Json::array();
  Json edges = Json::array();
  const auto add_map = [&](int id, const std::string& map_name) {
    const Network::Map& map = network.maps()[id];
    maps.push_back({{"id", id},
                    {"name", map_name},
                    {"shape", sizes_of(of_batch(map.shape, batch))},
                    {"bytes", of_batch(map.shape, batch).bytes()},
                    {"kept", map.kept},
                    {"memory", map.memory},
                    {"first_channel", map.first_channel}});
  };
  add_map(0, "input");
  for (int i = 0; i < network.count_of_layers(); ++i) {
    const Network::Node& node = network.nodes()[i];
    const int output = i + 1;
    const Shape shape = of_batch(network.shape(output), batch);
    layers.push_back({{"name", node.layer->name()},
                      {"kind", node.layer->kind()},
                      {"inputs", node.inputs},
                      {"output", output},
                      {"shape", sizes_of(shape)},
                      {"bytes", shape.bytes()},
                      {"saved", node.layer->kept().others}});
    if (const auto geometry = node.layer->geometry(network.shape(node.inputs[0]))) {
      layers.back()["window"] = {
          {"size", geometry->size}, {"stride", geometry->stride}, {"padding", geometry->padding}};
      if (geometry->groups > 0) layers.back()["groups"] = geometry->groups;
    }
    add_map(output, node.layer->name() + ".out");
    for (const int input : node.inputs) {
      if (input > 0) edges.push_back({network.nodes()[input - 1].layer->name(), node.layer->name()});
    }
  }
  const Json loss{{"kind", "softmax"}, {"input", network.count_of_layers()}};
  return {{"network", name}, {"layers", layers}, {"loss", loss}, {"maps", maps}, {"edges", edges}};
}

}  // namespace train

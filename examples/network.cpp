#include "network.h"

#include <stdexcept>
#include <utility>

namespace train {

Network::Network(Context& context, Shape image, std::uint64_t seed) : context_(context), random_(seed) {
  maps_.push_back({image, -1, false});
}

int Network::add(std::unique_ptr<Layer> layer, std::vector<int> inputs) {
  const int node = count_of_layers();
  std::vector<Shape> shapes;
  for (const int input : inputs) {
    Map& map = maps_.at(input);
    if (map.last_reader >= 0 && nodes_[map.last_reader].layer->in_place() &&
        nodes_[map.last_reader].inputs[0] == input) {
      throw std::logic_error(layer->name() + " reads a map that was overwritten");
    }
    map.last_reader = node;
    shapes.push_back(map.shape);
  }
  const Shape output = layer->build(context_, shapes, random_);
  nodes_.push_back({std::move(layer), std::move(inputs)});
  maps_.push_back({output});
  return node + 1;
}

Tensor Network::forward(Tensor images, bool training) {
  std::vector<Tensor> values(maps_.size());
  values[0] = std::move(images);
  for (int node = 0; node < count_of_layers(); ++node) {
    std::vector<Tensor> inputs;
    for (const int input : nodes_[node].inputs) {
      inputs.push_back(maps_[input].last_reader == node ? std::move(values[input]) : values[input]);
    }
    values[node + 1] = nodes_[node].layer->forward(context_, std::move(inputs), training);
  }
  return std::move(values.back());
}

void Network::backward(Tensor gradient) {
  std::vector<Tensor> gradients(maps_.size());
  gradients.back() = std::move(gradient);
  for (int node = count_of_layers() - 1; node >= 0; --node) {
    std::vector<GradientSlot> slots;
    for (const int input : nodes_[node].inputs) {
      slots.push_back(maps_[input].wants_gradient ? &gradients[input] : nullptr);
    }
    nodes_[node].layer->backward(context_, std::move(gradients[node + 1]), slots);
  }
}

std::vector<Parameter*> Network::parameters() const {
  std::vector<Parameter*> all;
  for (const Node& node : nodes_) {
    for (Parameter* parameter : node.layer->parameters()) all.push_back(parameter);
  }
  return all;
}

}  // namespace train

#include "network.h"

#include <stdexcept>
#include <utility>

namespace train {

Network::Network(Shape image, Relu relu) : relu_(relu) {
  maps_.push_back({image, -1, false});
}

int Network::add(std::unique_ptr<Layer> layer, std::vector<int> inputs) {
  const int node = count_of_layers();
  const int output = node + 1;
  std::vector<Shape> shapes;
  for (const int input : inputs) {
    Map& map = maps_.at(input);
    if (map.kept && layer->in_place() && input == inputs[0]) {
      throw std::logic_error(layer->name() + " would overwrite a map that the backward pass reads");
    }
    if (map.last_reader >= 0 && nodes_[map.last_reader].layer->in_place() &&
        nodes_[map.last_reader].inputs[0] == input) {
      throw std::logic_error(layer->name() + " reads a map that was overwritten");
    }
    map.last_reader = node;
    map.kept |= layer->kept().inputs;
    shapes.push_back(map.shape);
  }
  const Shape shape = layer->output(shapes);
  const int memory = layer->in_place() ? maps_[inputs[0]].memory : output;
  maps_.push_back({shape, -1, true, memory, 0, layer->kept().output});
  nodes_.push_back({std::move(layer), std::move(inputs)});
  if (nodes_.back().layer->concatenates()) place_inputs(nodes_.back(), output);
  return output;
}

// Gives the inputs, and what they are in the memory of, their channels of the output.
void Network::place_inputs(const Node& concatenation, int output) {
  int channel = 0;
  for (const int input : concatenation.inputs) {
    const int root = maps_[input].memory;
    if (root == 0 || nodes_[root - 1].layer->concatenates()) {
      throw std::logic_error(concatenation.layer->name() + " cannot give its input a place");
    }
    for (Map& map : maps_) {
      if (map.memory == root) map.memory = output, map.first_channel = channel;
    }
    channel += maps_[input].shape.c;
  }
}

int Network::add_relu(const std::string& name, int input) {
  return add(relu(name + ".relu", relu_), {input});
}

void Network::prepare(Context& context, std::uint64_t seed) {
  context_ = &context;
  Random random(seed);
  for (const Node& node : nodes_) node.layer->prepare(context, input_shapes(node), random);
}

void Network::resize(Shape image) {
  maps_.front().shape = image;
  for (int node = 0; node < count_of_layers(); ++node) {
    maps_[node + 1].shape = nodes_[node].layer->output(input_shapes(nodes_[node]));
  }
}

std::vector<Shape> Network::input_shapes(const Node& node) const {
  std::vector<Shape> shapes;
  for (const int input : node.inputs) shapes.push_back(maps_[input].shape);
  return shapes;
}

// Where a layer that makes its own output shall put it; empty where that is up to the layer.
Tensor Network::place_of(int map, std::vector<Tensor>& values, int images) {
  const int memory = maps_[map].memory;
  // A concatenation's own tensor is there before its turn comes.
  if (memory == map || nodes_[map - 1].layer->in_place()) return std::move(values[map]);
  Tensor& whole = values[memory];
  if (!whole) {
    Shape shape = maps_[memory].shape;
    shape.n = images;
    whole = context_->memory.tensor(shape);
  }
  return whole.channels(maps_[map].first_channel, maps_[map].shape.c);
}

Tensor Network::forward(Tensor images, bool training) {
  const int count = images.shape().n;
  if (images.shape().per_image() != image()) resize(images.shape().per_image());
  std::vector<Tensor> values(maps_.size());
  values[0] = std::move(images);
  for (int node = 0; node < count_of_layers(); ++node) {
    std::vector<Tensor> inputs;
    for (const int input : nodes_[node].inputs) {
      inputs.push_back(maps_[input].last_reader == node ? std::move(values[input]) : values[input]);
    }
    Tensor place = place_of(node + 1, values, count);
    values[node + 1] = nodes_[node].layer->forward(*context_, std::move(inputs), std::move(place), training);
  }
  return std::move(values.back());
}

void Network::backward(Tensor gradient, const std::function<void(const Tensor&)>& halfway) {
  std::vector<Tensor> gradients(maps_.size());
  gradients.back() = std::move(gradient);
  for (int node = count_of_layers() - 1; node >= 0; --node) {
    if (halfway && node == count_of_layers() / 2) halfway(gradients[node + 1]);
    std::vector<GradientSlot> slots;
    for (const int input : nodes_[node].inputs) {
      slots.push_back(maps_[input].wants_gradient ? &gradients[input] : nullptr);
    }
    nodes_[node].layer->backward(*context_, std::move(gradients[node + 1]), slots);
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

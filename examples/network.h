// A graph of layers over numbered feature maps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers.h"

namespace train {

class Network {
 public:
  struct Map {
    Shape shape;  // of one image
    int last_reader = -1;
    bool wants_gradient = true;
    // The map whose memory this one is: its own, that of the layer's first input where the layer works in
    // place, or the concatenation that it is a part of.
    int memory = 0;
    int first_channel = 0;  // in that memory
    bool kept = false;      // read in the backward pass
  };
  struct Node {
    std::unique_ptr<Layer> layer;
    std::vector<int> inputs;
  };

  // Map 0 is the input; `image` is the shape of one image. The device is not touched before prepare.
  explicit Network(Shape image, Relu relu = Relu::in_place);

  // Appends a layer and returns its output map. An in-place layer must be the last reader of its first input.
  int add(std::unique_ptr<Layer> layer, std::vector<int> inputs);
  int add_relu(const std::string& name, int input);  // as the network does it; named `name`.relu
  // Makes all parameters; equal seeds make equal ones.
  void prepare(Context& context, std::uint64_t seed);

  // Images of another size than the last ones change the size of every map. Returns the last map. A map goes
  // when its last reader was submitted, unless a layer keeps it.
  Tensor forward(Tensor images, bool training);
  // `gradient`: of the last map; the weights' gradients are there afterwards. Follows a training forward.
  // `halfway` is called with the gradient that travels on from the middle layer.
  void backward(Tensor gradient, const std::function<void(const Tensor&)>& halfway = {});

  std::vector<Parameter*> parameters() const;
  int count_of_layers() const { return static_cast<int>(nodes_.size()); }
  Shape shape(int map) const { return maps_[map].shape; }
  Shape image() const { return maps_.front().shape; }
  int classes() const { return maps_.back().shape.c; }
  const std::vector<Map>& maps() const { return maps_; }
  const std::vector<Node>& nodes() const { return nodes_; }  // node i writes map i + 1

 private:
  void resize(Shape image);
  std::vector<Shape> input_shapes(const Node& node) const;
  void place_inputs(const Node& concatenation, int output);
  Tensor place_of(int map, std::vector<Tensor>& values, int images);

  Context* context_ = nullptr;
  Relu relu_;
  std::vector<Map> maps_;
  std::vector<Node> nodes_;
};

}  // namespace train

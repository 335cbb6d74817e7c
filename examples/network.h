// A graph of layers over numbered feature maps, and the two networks.
#pragma once

#include <memory>
#include <vector>

#include "layers.h"

namespace train {

class Network {
 public:
  // Map 0 is the input; `image` is the shape of one image.
  Network(Context& context, Shape image, std::uint64_t seed);

  // Appends a layer and returns its output map. An in-place layer must be the last reader of its first input.
  int add(std::unique_ptr<Layer> layer, std::vector<int> inputs);
  Shape shape(int map) const { return maps_[map].shape; }

  // Returns the last map. A map goes when its last reader was submitted, unless a layer keeps it.
  Tensor forward(Tensor images, bool training);
  // `gradient`: of the last map; the weights' gradients are there afterwards. Follows a training forward.
  void backward(Tensor gradient);

  std::vector<Parameter*> parameters() const;
  int count_of_layers() const { return static_cast<int>(nodes_.size()); }

 private:
  struct Map {
    Shape shape;
    int last_reader = -1;
    bool wants_gradient = true;
  };
  struct Node {
    std::unique_ptr<Layer> layer;
    std::vector<int> inputs;
  };

  Context& context_;
  Random random_;
  std::vector<Map> maps_;
  std::vector<Node> nodes_;  // node i writes map i + 1
};

// Convolution, batch norm, and ReLU unless `activate` is false; returns the output map.
int add_convolution_block(Network& network, const std::string& name, int input, int channels, Window window,
                          bool activate, float gamma = 1.0F);

// A residual network for images of 1 x 8 x 8 in 10 classes; `width`: channels of its first stage.
Network digits_network(Context& context, int width, std::uint64_t seed);
// ResNet-50 (He et al., 2016, table 1), with the stride in the 3 x 3 convolution as in torchvision ("v1.5"),
// for images of 3 x size x size in 1000 classes.
Network resnet50(Context& context, int size, std::uint64_t seed);

}  // namespace train

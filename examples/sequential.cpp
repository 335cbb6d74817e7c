// Networks without branches: AlexNet and VGG.
#include <string>

#include "networks.h"

namespace train {
namespace {

// Two hidden layers of 4096, and the answer.
void add_classifier(Network& network, int map) {
  for (const char* name : {"fc6", "fc7"}) {
    map = network.add(linear(name, 4096), {map});
    map = network.add_relu(name, map);
    map = network.add(dropout(name + std::string(".dropout"), 0.5F), {map});
  }
  network.add(linear("fc8", 1000), {map});
}

}  // namespace

Network alexnet(Form form) {
  constexpr Window pooling{3, 2, 0};
  Network network({1, 3, form.height, form.width}, form.relu);
  int map = add_convolution_relu(network, "conv1", 0, 64, {11, 4, 2});
  map = network.add(response_norm("norm1"), {map});
  map = network.add(max_pooling("pool1", pooling), {map});
  map = add_convolution_relu(network, "conv2", map, 192, {5, 1, 2});
  map = network.add(response_norm("norm2"), {map});
  map = network.add(max_pooling("pool2", pooling), {map});
  map = add_convolution_relu(network, "conv3", map, 384, {3, 1, 1});
  map = add_convolution_relu(network, "conv4", map, 256, {3, 1, 1});
  map = add_convolution_relu(network, "conv5", map, 256, {3, 1, 1});
  map = network.add(max_pooling("pool5", pooling), {map});
  add_classifier(network, map);
  return network;
}

Network vgg16(Form form, int more) {
  constexpr struct {
    int convolutions, channels;
  } blocks[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  Network network({1, 3, form.height, form.width}, form.relu);
  int map = 0;
  for (int block = 0; block < 5; ++block) {
    const std::string number = std::to_string(block + 1);
    for (int i = 1; i <= blocks[block].convolutions + more; ++i) {
      map = add_convolution_relu(network, "conv" + number + "_" + std::to_string(i), map,
                                 blocks[block].channels, {3, 1, 1});
    }
    map = network.add(max_pooling("pool" + number, {2, 2, 0}), {map});
  }
  add_classifier(network, map);
  return network;
}

}  // namespace train

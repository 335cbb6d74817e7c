#include <string>

#include "network.h"

namespace train {

int add_convolution_block(Network& network, const std::string& name, int input, int channels, Window window,
                          bool activate, float gamma) {
  int map = network.add(convolution(name + ".conv", channels, window), {input});
  map = network.add(batch_norm(name + ".bn", gamma), {map});
  return activate ? network.add(relu(name + ".relu"), {map}) : map;
}

namespace {

constexpr Window pointwise{1, 1, 0};

// The shortcut around a residual block: the input itself, or a projection where the shape changes.
int add_shortcut(Network& network, const std::string& name, int input, int channels, int stride) {
  if (stride == 1 && network.shape(input).c == channels) return input;
  return add_convolution_block(network, name + ".shortcut", input, channels, {1, stride, 0}, false);
}

int add_sum(Network& network, const std::string& name, int branch, int shortcut) {
  const int sum = network.add(addition(name + ".add"), {branch, shortcut});
  return network.add(relu(name + ".relu"), {sum});
}

// 3 x 3, then 1 x 1: half of the feature maps cost a ninth of the arithmetic.
int add_digits_block(Network& network, const std::string& name, int input, int channels, int stride) {
  int map = add_convolution_block(network, name + ".1", input, channels, {3, stride, 1}, true);
  map = add_convolution_block(network, name + ".2", map, channels, pointwise, false);
  return add_sum(network, name, map, add_shortcut(network, name, input, channels, stride));
}

int add_bottleneck(Network& network, const std::string& name, int input, int channels, int stride) {
  int map = add_convolution_block(network, name + ".1", input, channels, pointwise, true);
  map = add_convolution_block(network, name + ".2", map, channels, {3, stride, 1}, true);
  map = add_convolution_block(network, name + ".3", map, 4 * channels, pointwise, false);
  return add_sum(network, name, map, add_shortcut(network, name, input, 4 * channels, stride));
}

}  // namespace

Network digits_network(Context& context, int width, std::uint64_t seed) {
  constexpr int blocks[] = {15, 2};
  Network network(context, {1, 1, 8, 8}, seed);
  int map = add_convolution_block(network, "stem", 0, width, {3, 1, 1}, true);
  for (int stage = 0; stage < 2; ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string name = "stage" + std::to_string(stage + 1) + "." + std::to_string(block + 1);
      map = add_digits_block(network, name, map, width << stage, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  map = network.add(global_average("pool"), {map});
  network.add(linear("fc", 10), {map});
  return network;
}

Network resnet50(Context& context, int size, std::uint64_t seed) {
  constexpr int blocks[] = {3, 4, 6, 3};
  Network network(context, {1, 3, size, size}, seed);
  int map = add_convolution_block(network, "conv1", 0, 64, {7, 2, 3}, true);
  map = network.add(max_pooling("pool1", {3, 2, 1}), {map});
  for (int stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string name = "conv" + std::to_string(stage + 2) + "_" + std::to_string(block + 1);
      map = add_bottleneck(network, name, map, 64 << stage, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  map = network.add(global_average("pool5"), {map});
  network.add(linear("fc", 1000), {map});
  return network;
}

}  // namespace train

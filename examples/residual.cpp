// Residual networks: the digits', ResNet, ResNeXt.
#include <string>

#include "networks.h"

namespace train {
namespace {

constexpr Window pointwise{1, 1, 0};

// The shortcut around a residual block: the input itself, or a projection where the shape changes.
int add_shortcut(Network& network, const std::string& name, int input, int channels, int stride) {
  if (stride == 1 && network.shape(input).c == channels) return input;
  return add_convolution_block(network, name + ".shortcut", input, channels, {1, stride, 0}, false);
}

int add_sum(Network& network, const std::string& name, int branch, int shortcut) {
  const int sum = network.add(addition(name + ".add"), {branch, shortcut});
  return network.add_relu(name, sum);
}

// 3 x 3, then 1 x 1: half of the feature maps cost a ninth of the arithmetic.
int add_digits_block(Network& network, const std::string& name, int input, int channels, int stride) {
  int map = add_convolution_block(network, name + ".1", input, channels, {3, stride, 1}, true);
  map = add_convolution_block(network, name + ".2", map, channels, pointwise, false);
  return add_sum(network, name, map, add_shortcut(network, name, input, channels, stride));
}

struct Bottleneck {
  int channels;   // inside
  int expansion;  // of the output
  int groups;
};

int add_bottleneck(Network& network, const std::string& name, int input, Bottleneck block, int stride) {
  const int outside = block.channels * block.expansion;
  int map = add_convolution_block(network, name + ".1", input, block.channels, pointwise, true);
  map = add_convolution_block(network, name + ".2", map, block.channels, {3, stride, 1}, true, block.groups);
  map = add_convolution_block(network, name + ".3", map, outside, pointwise, false);
  return add_sum(network, name, map, add_shortcut(network, name, input, outside, stride));
}

// Four stages of bottlenecks, each with half the size and twice the channels of the one before.
int add_stages(Network& network, int map, const std::vector<int>& blocks, Bottleneck first) {
  for (int stage = 0; stage < 4; ++stage) {
    const Bottleneck shape{first.channels << stage, first.expansion, first.groups};
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string name = "conv" + std::to_string(stage + 2) + "_" + std::to_string(block + 1);
      map = add_bottleneck(network, name, map, shape, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  return map;
}

Network residual_network(Shape image, Relu relu, Window stem, const std::vector<int>& blocks,
                         Bottleneck first, int classes) {
  Network network(image, relu);
  int map = add_convolution_block(network, "conv1", 0, 64, stem, true);
  map = network.add(max_pooling("pool1", {3, 2, 1}), {map});
  map = add_stages(network, map, blocks, first);
  map = network.add(global_average("pool5"), {map});
  network.add(linear("fc", classes), {map});
  return network;
}

}  // namespace

Network digits_network(int width, Relu relu) {
  constexpr int blocks[] = {15, 2};
  Network network({1, 1, 8, 8}, relu);
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

Network resnet(Form form, const std::vector<int>& blocks) {
  return residual_network({1, 3, form.height, form.width}, form.relu, {7, 2, 3}, blocks, {64, 4, 1}, 1000);
}

Network resnext101_3d(Form form) {
  return residual_network({1, 3, form.height, form.width, form.frames}, form.relu, {7, 2, 3, 1},
                          {3, 4, 23, 3}, {128, 2, 32}, 400);
}

}  // namespace train

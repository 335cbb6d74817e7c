// GoogLeNet.
#include <string>

#include "networks.h"

namespace train {
namespace {

struct Inception {
  int plain, reduce3, branch3, reduce5, branch5, pooled;  // channels, as in the columns of table 1
};

constexpr Window pointwise{1, 1, 0};
constexpr Window halving{3, 2, 1};

int add_inception(Network& network, const std::string& name, int input, Inception channels) {
  const int plain = add_convolution_relu(network, name + ".1x1", input, channels.plain, pointwise);
  int map = add_convolution_relu(network, name + ".3x3_reduce", input, channels.reduce3, pointwise);
  const int branch3 = add_convolution_relu(network, name + ".3x3", map, channels.branch3, {3, 1, 1});
  map = add_convolution_relu(network, name + ".5x5_reduce", input, channels.reduce5, pointwise);
  const int branch5 = add_convolution_relu(network, name + ".5x5", map, channels.branch5, {5, 1, 2});
  map = network.add(max_pooling(name + ".pool", {3, 1, 1}), {input});
  const int pooled = add_convolution_relu(network, name + ".pool_proj", map, channels.pooled, pointwise);
  return network.add(concatenation(name + ".concat"), {plain, branch3, branch5, pooled});
}

}  // namespace

Network googlenet(Form form) {
  Network network({1, 3, form.height, form.width}, form.relu);
  int map = add_convolution_relu(network, "conv1", 0, 64, {7, 2, 3});
  map = network.add(max_pooling("pool1", halving), {map});
  map = network.add(response_norm("norm1"), {map});
  map = add_convolution_relu(network, "conv2_reduce", map, 64, pointwise);
  map = add_convolution_relu(network, "conv2", map, 192, {3, 1, 1});
  // Like the first pair: before the pooling, as in figure 3, its gradient alone would take 44 % of the need.
  map = network.add(max_pooling("pool2", halving), {map});
  map = network.add(response_norm("norm2"), {map});
  map = add_inception(network, "3a", map, {64, 96, 128, 16, 32, 32});
  map = add_inception(network, "3b", map, {128, 128, 192, 32, 96, 64});
  map = network.add(max_pooling("pool3", halving), {map});
  map = add_inception(network, "4a", map, {192, 96, 208, 16, 48, 64});
  map = add_inception(network, "4b", map, {160, 112, 224, 24, 64, 64});
  map = add_inception(network, "4c", map, {128, 128, 256, 24, 64, 64});
  map = add_inception(network, "4d", map, {112, 144, 288, 32, 64, 64});
  map = add_inception(network, "4e", map, {256, 160, 320, 32, 128, 128});
  map = network.add(max_pooling("pool4", halving), {map});
  map = add_inception(network, "5a", map, {256, 160, 320, 32, 128, 128});
  map = add_inception(network, "5b", map, {384, 192, 384, 48, 128, 128});
  map = network.add(global_average("pool5"), {map});
  map = network.add(dropout("dropout", 0.4F), {map});
  network.add(linear("fc", 1000), {map});
  return network;
}

}  // namespace train

#include "networks.h"

#include <algorithm>

namespace train {

const std::vector<NetworkChoice>& network_choices() {
  constexpr Form usual{224, 224};
  const auto deep_vgg = [](int more) { return [=](Form form) { return vgg16(form, more); }; };
  static const std::vector<NetworkChoice> choices{
      {"digits", 512, {8, 8}, [](Form form) { return digits_network(32, form.relu); }},
      {"alexnet", 128, usual, alexnet},
      {"vgg16", 64, usual, deep_vgg(0)},
      {"vgg116", 32, usual, deep_vgg(20)},
      {"vgg216", 32, usual, deep_vgg(40)},
      {"vgg316", 32, usual, deep_vgg(60)},
      {"vgg416", 32, usual, deep_vgg(80)},
      {"googlenet", 128, usual, googlenet},
      {"resnet50", 64, usual,
       [](Form form) {
         return resnet(form, {3, 4, 6, 3});
       }},
      {"resnet152", 32, usual,
       [](Form form) {
         return resnet(form, {3, 8, 36, 3});
       }},
      {"resnext101-3d", 1, {112, 112, 16}, resnext101_3d},
  };
  return choices;
}

const NetworkChoice& network_choice(const std::string& name) {
  const auto& choices = network_choices();
  return *std::find_if(choices.begin(), choices.end(),
                       [&](const auto& choice) { return choice.name == name; });
}

int add_convolution_relu(Network& network, const std::string& name, int input, int channels, Window window) {
  const int map = network.add(convolution(name + ".conv", channels, window, {1, true}), {input});
  return network.add_relu(name, map);
}

int add_convolution_block(Network& network, const std::string& name, int input, int channels, Window window,
                          bool activate, int groups) {
  int map = network.add(convolution(name + ".conv", channels, window, {groups}), {input});
  map = network.add(batch_norm(name + ".bn"), {map});
  return activate ? network.add_relu(name, map) : map;
}

}  // namespace train

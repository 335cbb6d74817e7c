// The networks by name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "network.h"

namespace train {

// What a network is built for.
struct Form {
  int height = 0, width = 0;
  int frames = 0;  // 0: images
  Relu relu = Relu::in_place;
};

struct NetworkChoice {
  std::string name;
  int batch;                           // by default
  Form form;                           // by default
  std::function<Network(Form)> build;  // throws std::invalid_argument where the input is too small
};

const std::vector<NetworkChoice>& network_choices();
// `name` must be one of them.
const NetworkChoice& network_choice(const std::string& name);

// A residual network for images of 1 x 8 x 8 in 10 classes; `width`: channels of its first stage.
Network digits_network(int width, Relu relu = Relu::in_place);

// ResNet-50 and -152 (He et al., 2016, table 1), with the stride in the 3 x 3 convolution as in torchvision
// ("v1.5"); 1000 classes.
Network resnet(Form form, const std::vector<int>& blocks);
// ResNeXt-101 of clips: 32 groups, all convolutions and poolings 3-D (Hara et al., "Can Spatiotemporal 3D
// CNNs Retrace the History of 2D CNNs and ImageNet?", 2018, table 1); 400 classes.
Network resnext101_3d(Form form);

// Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014): one column; 1000
// classes.
Network alexnet(Form form);
// Simonyan and Zisserman (2015), configuration D with `more` further convolutions in each of its five blocks,
// as in Rhu et al., "vDNN" (2016); 1000 classes.
Network vgg16(Form form, int more);

// Szegedy et al., "Going Deeper with Convolutions" (2015), table 1, without the auxiliary classifiers; 1000
// classes.
Network googlenet(Form form);

// Convolution with bias, and ReLU; returns the output map.
int add_convolution_relu(Network& network, const std::string& name, int input, int channels, Window window);
// Convolution, batch norm, and ReLU unless `activate` is false; returns the output map.
int add_convolution_block(Network& network, const std::string& name, int input, int channels, Window window,
                          bool activate, int groups = 1);

}  // namespace train

// The layers and what each keeps of the forward pass: convolution and batch norm their input, ReLU its
// output, pooling both. Everything else goes as soon as its last reader was submitted.
#pragma once

#include <cudnn.h>

#include <memory>
#include <string>
#include <vector>

#include "context.h"
#include "random.h"

namespace train {

struct Parameter {
  std::string name;
  Tensor value;
  Tensor gradient;  // lives from the backward pass to the optimiser's step
  Tensor momentum;
};

// The gradient of one layer input: nullptr where nobody wants it. A gradient that is there already came from
// a later layer and is accumulated into.
using GradientSlot = Tensor*;

class Layer {
 public:
  explicit Layer(std::string name) : name_(std::move(name)) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Makes parameters. `inputs` are the shapes for one image; returns the output's.
  virtual Shape build(Context& context, const std::vector<Shape>& inputs, Random& random) = 0;
  // Takes references to the inputs; with `training` false nothing is kept.
  virtual Tensor forward(Context& context, std::vector<Tensor> inputs, bool training) = 0;
  // Consumes dy and what forward kept.
  virtual void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) = 0;
  virtual std::vector<Parameter*> parameters() { return {}; }
  // The output is the first input's memory.
  virtual bool in_place() const { return false; }

  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

struct Window {
  int size, stride, padding;
  int output(int input) const { return (input + 2 * padding - size) / stride + 1; }
};

// Without bias: a batch norm follows.
std::unique_ptr<Layer> convolution(std::string name, int channels, Window window);
// `gamma`: the initial scale.
std::unique_ptr<Layer> batch_norm(std::string name, float gamma = 1.0F);
std::unique_ptr<Layer> relu(std::string name);  // in place
std::unique_ptr<Layer> max_pooling(std::string name, Window window);
std::unique_ptr<Layer> global_average(std::string name);
// Adds the second input to the first, in place.
std::unique_ptr<Layer> addition(std::string name);
std::unique_ptr<Layer> linear(std::string name, int features);

// Makes the gradient if it is not there. Returns cuDNN's beta: 0 for a new one, 1 to accumulate.
const float* open_gradient(Context& context, Tensor& gradient, Shape shape);

}  // namespace train

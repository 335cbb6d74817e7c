// The layers and what each keeps of the forward pass: convolution and batch norm their input, ReLU its
// output, pooling and response norm both, dropout what it dropped. Everything else goes as soon as its last
// reader was submitted.
#pragma once

#include <cudnn.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "context.h"
#include "random.h"

namespace train {

struct Parameter {
  std::string name;
  Tensor value;
  Tensor gradient;                 // lives from the first backward pass to the optimiser's step
  Tensor momentum, second_moment;  // the latter: AdamW
};

// The gradient of one layer input: nullptr where nobody wants it. A gradient that is there already came from
// a later layer and is accumulated into.
using GradientSlot = Tensor*;

// What the backward pass reads again: operands of its calls, whether or not each value can matter.
struct Kept {
  bool inputs, output;
  std::vector<const char*> others = {};  // of the layer's own making, by name
};

// Of a convolution or pooling, per spatial dimension of its input.
struct Geometry {
  std::vector<int> size, stride, padding;
  int groups = 0;  // of a convolution
};

// A layer is first only its shape; the device is touched from prepare on.
class Layer {
 public:
  explicit Layer(std::string name) : name_(std::move(name)) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const std::string& name() const { return name_; }
  virtual const char* kind() const = 0;
  virtual Kept kept() const = 0;
  virtual std::optional<Geometry> geometry(Shape /*input*/) const { return std::nullopt; }
  // The output is the first input's memory.
  virtual bool in_place() const { return false; }
  // The output is the inputs' memory, one behind the other by channels.
  virtual bool concatenates() const { return false; }
  // Throws std::invalid_argument for images that are too small. Called before all below, and again for every
  // new size of images.
  virtual Shape output(const std::vector<Shape>& inputs) = 0;

  // Makes parameters. `inputs` are the shapes for one image.
  virtual void prepare(Context&, const std::vector<Shape>&, Random&) {}
  // Takes references to the inputs; with `training` false nothing is kept. The output goes to `place`, if
  // there is one.
  virtual Tensor forward(Context& context, std::vector<Tensor> inputs, Tensor place, bool training) = 0;
  // Consumes dy and what forward kept.
  virtual void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) = 0;
  virtual std::vector<Parameter*> parameters() { return {}; }

 private:
  std::string name_;
};

// Of a convolution or pooling, the same in all directions.
struct Window {
  int size, stride, padding;
  int depth_stride = 0;  // of clips; 0: as the others

  // Throws std::invalid_argument where the window is larger than the input.
  Shape output(Shape in, int channels) const;
  // Per spatial dimension of `in`, as cuDNN takes them.
  std::vector<int> sizes(Shape in) const;
  std::vector<int> strides(Shape in) const;
  std::vector<int> paddings(Shape in) const;
};

struct ConvolutionForm {
  int groups = 1;
  bool bias = false;  // a batch norm needs none before it
};

std::unique_ptr<Layer> convolution(std::string name, int channels, Window window, ConvolutionForm form = {});
// `gamma`: the initial scale.
std::unique_ptr<Layer> batch_norm(std::string name, float gamma = 1.0F);
// Its input overwritten; or an output of its own, and its input kept for the backward pass besides.
enum class Relu { in_place, separate };
std::unique_ptr<Layer> relu(std::string name, Relu how);
std::unique_ptr<Layer> max_pooling(std::string name, Window window);
std::unique_ptr<Layer> global_average(std::string name);
// Adds the second input to the first, in place.
std::unique_ptr<Layer> addition(std::string name);
// Its inputs' layers write into the one output themselves.
std::unique_ptr<Layer> concatenation(std::string name);
// Across channels, over five of them.
std::unique_ptr<Layer> response_norm(std::string name);
// Nothing when not training.
std::unique_ptr<Layer> dropout(std::string name, float probability);
std::unique_ptr<Layer> linear(std::string name, int features);

// `place`, or new memory.
Tensor output_tensor(Context& context, Tensor place, Shape shape);
// Makes the gradient if it is not there. Returns cuDNN's beta: 0 for a new one, 1 to accumulate.
const float* open_gradient(Context& context, Tensor& gradient, Shape shape);

}  // namespace train

#include <stdexcept>
#include <utility>

#include "layers.h"

namespace train {
namespace {

// No work of its own: each input was written to its channels of the output, and each gradient is read from
// its channels of dy.
class Concatenation final : public Layer {
 public:
  using Layer::Layer;

  const char* kind() const override { return "concatenation"; }
  Kept kept() const override { return {false, false}; }
  bool concatenates() const override { return true; }
  Shape output(const std::vector<Shape>& inputs) override {
    Shape whole = inputs[0];
    whole.c = 0;
    channels_.clear();
    for (Shape part : inputs) {
      channels_.push_back(part.c);
      whole.c += part.c;
      part.c = inputs[0].c;
      if (part != inputs[0]) throw std::logic_error(name() + ": the shapes differ in more than channels");
    }
    return whole;
  }

  Tensor forward(Context&, std::vector<Tensor>, Tensor place, bool) override { return place; }

  void backward(Context&, Tensor dy, const std::vector<GradientSlot>& dx) override {
    int first = 0;
    for (std::size_t i = 0; i < dx.size(); ++i) {
      *dx[i] = dy.channels(first, channels_[i]);
      first += channels_[i];
    }
  }

 private:
  std::vector<int> channels_;
};

}  // namespace

std::unique_ptr<Layer> concatenation(std::string name) {
  return std::make_unique<Concatenation>(std::move(name));
}

}  // namespace train

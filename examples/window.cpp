#include <stdexcept>

#include "layers.h"

namespace train {
namespace {

std::vector<int> per_dimension(Shape in, int depth, int other) {
  return in.d == 0 ? std::vector{other, other} : std::vector{depth, other, other};
}

}  // namespace

Shape Window::output(Shape in, int channels) const {
  const auto one = [&](int length, int step) {
    const int room = length + 2 * padding - size;
    if (room < 0) throw std::invalid_argument("the images are too small for this network");
    return room / step + 1;
  };
  const int depth = in.d == 0 ? 0 : one(in.d, depth_stride > 0 ? depth_stride : stride);
  return {in.n, channels, one(in.h, stride), one(in.w, stride), depth};
}

std::vector<int> Window::sizes(Shape in) const {
  return per_dimension(in, size, size);
}
std::vector<int> Window::strides(Shape in) const {
  return per_dimension(in, depth_stride > 0 ? depth_stride : stride, stride);
}
std::vector<int> Window::paddings(Shape in) const {
  return per_dimension(in, padding, padding);
}

}  // namespace train

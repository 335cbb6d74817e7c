// batch_norm(x, y, scale, bias, mean, inverse, rows, row, channels, how, differs): normalises again from
// statistics that are there. Packed tensors: `rows` of `row` elements each. Bits of `how`: 0, a row belongs
// to one channel, else each of its elements does; 1, half precision; 2, what is below zero becomes zero; 3,
// so does what is no number; from bit 4 on which of four formulas. With `differs` y is compared with each of
// them in place of being written: the word of one that makes other bits becomes 1.
#include <bit>
#include <cmath>
#include <cstring>

#include "softgpu/image.h"
#include "softgpu/meaning.h"

namespace {

using softgpu::TouchKind;

constexpr std::uint32_t formulas = 4;

struct Arguments {
  std::uint64_t x, y, scale, bias, mean, inverse, rows;
  std::uint32_t row, channels, how;
  std::uint64_t differs;

  bool channel_of_row() const { return (how & 1) != 0; }
  bool half() const { return (how & 2) != 0; }
  bool clips() const { return (how & 4) != 0; }
  bool keeps_nan() const { return (how & 8) == 0; }
  std::uint32_t formula() const { return how >> 4; }
  std::uint64_t elements() const { return rows * row; }
  std::uint64_t element_bytes() const { return half() ? 2 : 4; }
  softgpu::NormaliseMeaning meaning(std::uint32_t by) const {
    return {rows, row, channels, channel_of_row(), half(), by};
  }
};

template <class T>
void read(const void* const*& param, T& value) {
  std::memcpy(&value, *param++, sizeof value);
}

Arguments arguments(const void* const* params) {
  Arguments a{};
  for (std::uint64_t* const word : {&a.x, &a.y, &a.scale, &a.bias, &a.mean, &a.inverse, &a.rows})
    read(params, *word);
  for (std::uint32_t* const word : {&a.row, &a.channels, &a.how}) read(params, *word);
  read(params, a.differs);
  return a;
}

void footprint(const void* const* params, softgpu::Footprint& out) {
  const Arguments a = arguments(params);
  const std::uint64_t bytes = a.elements() * a.element_bytes(), channel_bytes = std::uint64_t{a.channels} * 4;
  const bool compares = a.differs != 0;
  out.touches = {{a.x, bytes, TouchKind::read},
                 {a.scale, channel_bytes, TouchKind::read},
                 {a.bias, channel_bytes, TouchKind::read},
                 {a.mean, channel_bytes, TouchKind::read},
                 {a.inverse, channel_bytes, TouchKind::read},
                 {a.y, bytes, compares ? TouchKind::read : TouchKind::write}};
  constexpr std::uint32_t y = 5;
  const auto normalise = [&](std::uint32_t by) {
    return softgpu::Stage{a.meaning(by).identity(), {0, 1, 2, 3, 4}, {y}};
  };
  if (compares) {
    out.touches.push_back({a.differs, formulas * 4, TouchKind::reach});
    for (std::uint32_t by = 0; by < formulas; ++by)
      out.comparisons.push_back({normalise(by), a.differs + by * 4});
  } else {
    out.stages.push_back(normalise(a.formula()));
    if (a.clips())
      out.stages.push_back(
          {softgpu::clip_identity(a.elements(), a.element_bytes(), a.keeps_nan()), {y}, {y}});
  }
  out.kind = "bn_fwd";
  out.bytes = 2 * static_cast<double>(bytes);
  constexpr double operations = 10;  // all formulas are computed
  out.flops = operations * static_cast<double>(a.elements());
}

float value_by(std::uint32_t formula, float x, float scale, float bias, float mean, float inverse) {
  const float centred = x - mean, slope = scale * inverse;
  switch (formula) {
    case 0:
      return std::fma(centred * scale, inverse, bias);
    case 1:
      return std::fma(centred * inverse, scale, bias);
    case 2:
      return std::fma(centred, slope, bias);
    default:
      return std::fma(x, slope, bias - mean * slope);
  }
}

template <class T>
const T* at(std::uint64_t address) {
  return reinterpret_cast<const T*>(address);
}

template <class T>
void run_on(const Arguments& a) {
  auto* const y = reinterpret_cast<T*>(a.y);
  auto* const differs = reinterpret_cast<std::uint32_t*>(a.differs);
  for (std::uint64_t r = 0; r < a.rows; ++r) {
    for (std::uint32_t i = 0; i < a.row; ++i) {
      const std::uint64_t c = a.channel_of_row() ? r % a.channels : i, place = r * a.row + i;
      const auto value = [&](std::uint32_t formula) {
        return value_by(formula, static_cast<float>(at<T>(a.x)[place]), at<float>(a.scale)[c],
                        at<float>(a.bias)[c], at<float>(a.mean)[c], at<float>(a.inverse)[c]);
      };
      if (differs == nullptr) {
        float made = value(a.formula());
        if (a.clips() && (made <= 0 || (!a.keeps_nan() && std::isnan(made)))) made = 0;
        y[place] = static_cast<T>(made);
        continue;
      }
      for (std::uint32_t by = 0; by < formulas; ++by) {
        const T made = static_cast<T>(value(by));
        if (std::memcmp(&made, &y[place], sizeof made) != 0) differs[by] = 1;
      }
    }
  }
}

void run(const void* const* params) {
  const Arguments a = arguments(params);
  if (a.half()) {
    run_on<_Float16>(a);
  } else {
    run_on<float>(a);
  }
}

constexpr std::uint32_t sizes[] = {8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 8};
constexpr softgpu::KernelEntry entry{"batch_norm", sizes, 11, &footprint, &run};

}  // namespace

extern "C" __attribute__((visibility("default"))) constexpr softgpu::Image softgpu_image{softgpu::image_magic,
                                                                                         1, &entry};

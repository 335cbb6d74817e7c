#include "softgpu/cudnn/elements/element_types.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/element_rows.h"

namespace softgpu::cudnn {
namespace {

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct Bfloat16 {
  std::uint16_t bits;
  static float load(Bfloat16 v) { return float_of(static_cast<std::uint32_t>(v.bits) << 16); }
  static Bfloat16 store(float value) {
    if (std::isnan(value)) return {0x7fff};
    const std::uint32_t bits = bits_of(value);
    return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
  }
};

// IEEE binary16: 5 bits of exponent, 10 of mantissa.
struct Half {
  std::uint16_t bits;
  static float load(Half v) {
    const std::uint32_t sign = static_cast<std::uint32_t>(v.bits & 0x8000) << 16;
    const int exponent = v.bits >> 10 & 31;
    const int mantissa = v.bits & 1023;
    float magnitude = 0;
    if (exponent == 31) {
      magnitude = float_of(0x7f800000U | static_cast<std::uint32_t>(mantissa) << 13);
    } else if (exponent == 0) {
      magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    } else {
      magnitude = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
    }
    return float_of(bits_of(magnitude) | sign);
  }
  static Half store(float value) {
    const auto sign = static_cast<std::uint16_t>(bits_of(value) >> 16 & 0x8000);
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) return {0x7fff};
    if (magnitude >= 65520.0F) return {static_cast<std::uint16_t>(sign | 0x7c00)};
    int exponent = 0;
    std::frexp(magnitude, &exponent);                // magnitude = m * 2^exponent with m in [0.5, 1)
    const int scale = std::max(exponent, -13) - 11;  // of the last mantissa bit
    const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -scale)));
    // Below 1024 the number is subnormal; 2048 carries into the exponent by itself.
    return {static_cast<std::uint16_t>(sign | (steps + (steps < 1024 ? 0 : (scale + 24) << 10)))};
  }
};

struct Float {
  float value;
  static float load(Float v) { return v.value; }
  static Float store(float value) { return {value}; }
};

// f(element of the tensor, number of the element).
template <class T, class F>
void each_element(std::uint64_t address, const Layout& layout, F f) {
  T* const elements = device_memory<T>(address);
  each_row<1>({layout}, [&](std::int64_t first, const Row<1>& row) {
    for (std::int64_t i = 0; i < row.length; ++i)
      f(elements[row.offsets[0] + i * row.strides[0]], static_cast<std::size_t>(first + i));
  });
}

template <class F>
void with_type(cudnnDataType_t type, F f) {
  if (type == CUDNN_DATA_HALF) return f(Half{});
  if (type == CUDNN_DATA_BFLOAT16) return f(Bfloat16{});
  f(Float{});
}

}  // namespace

std::vector<float> load_elements(std::uint64_t address, cudnnDataType_t type, const Layout& layout) {
  std::vector<float> result(static_cast<std::size_t>(element_count(layout)));
  with_type(type, [&](auto of) {
    using T = decltype(of);
    each_element<const T>(address, layout, [&](const T& v, std::size_t i) { result[i] = T::load(v); });
  });
  return result;
}

void store_elements(std::uint64_t address, cudnnDataType_t type, const Layout& layout,
                    const std::vector<float>& from) {
  with_type(type, [&](auto of) {
    using T = decltype(of);
    each_element<T>(address, layout, [&](T& v, std::size_t i) { v = T::store(from[i]); });
  });
}

}  // namespace softgpu::cudnn

// The kernel batch_norm on the processor, every thread of a grid in turn, against a plain reading of
// core/substitute.h.
#include "interpose/device/batch_norm_vector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace pooch::batch_norm {
namespace {

constexpr u32 formulas = 4;

struct Shape {
  u64 rows;
  u32 row, channels;
  bool of_row = true;
};

std::string text(const Shape& s) {
  return std::to_string(s.rows) + " rows of " + std::to_string(s.row) + ", " + std::to_string(s.channels) +
         (s.of_row ? " channels, one of a row" : " channels, one of an element");
}

// With vectors that cross no row's end, one or many; with tails; with more rows than channels and fewer.
const Shape shapes[] = {{7, 1, 1},           {40, 1, 3},          {130, 1, 64},      {33, 3, 1},
                        {50, 3, 3},          {20, 4, 3},          {13, 7, 64},       {9, 49, 3},
                        {70, 49, 64},        {5, 196, 3},         {11, 196, 1},      {2, 3136, 64},
                        {9, 3, 3, false},    {70, 64, 64, false}, {33, 1, 1, false}, {6, 4, 4, 0},
                        {11, 20, 20, false}, {2, 130, 130, false}};

// `count` elements, `ahead` of them after 16 aligned bytes.
template <class T>
class Array {
 public:
  Array(std::size_t count, std::size_t ahead) : count_(count), ahead_(ahead), memory_(bytes() / 16 + 2) {}
  T* begin() { return reinterpret_cast<T*>(memory_.data()) + ahead_; }
  T* end() { return begin() + count_; }
  T& operator[](std::size_t i) { return begin()[i]; }
  std::vector<Words> all() const { return memory_; }

 private:
  std::size_t bytes() const { return (count_ + ahead_) * sizeof(T); }
  std::size_t count_, ahead_;
  std::vector<Words> memory_;
};

float value_by(u32 formula, float x, const Channel& c) {
  switch (formula) {
    case 0:
      return std::fma((x - c.mean) * c.scale, c.inverse, c.bias);
    case 1:
      return std::fma((x - c.mean) * c.inverse, c.scale, c.bias);
    case 2:
      return std::fma(x - c.mean, c.scale * c.inverse, c.bias);
    default:
      return std::fma(x, c.scale * c.inverse, c.bias - c.mean * (c.scale * c.inverse));
  }
}

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, u16, u32>;

template <class T>
bool same_bits(T a, T b) {
  return std::bit_cast<BitsOf<T>>(a) == std::bit_cast<BitsOf<T>>(b);
}

template <class T>
class Case {
 public:
  Case(const Shape& shape, std::size_t x_ahead, std::size_t y_ahead, std::size_t channel_ahead = 0)
      : shape_(shape),
        elements_(shape.rows * shape.row),
        x(elements_, x_ahead),
        y(elements_, y_ahead),
        scale_(shape.channels, channel_ahead),
        bias_(shape.channels, channel_ahead),
        mean_(shape.channels, channel_ahead),
        inverse_(shape.channels, channel_ahead) {
    std::mt19937 source(7);
    const auto draw = [&](float from, float to) {
      return std::uniform_real_distribution<float>(from, to)(source);
    };
    for (T& each : x) each = static_cast<T>(draw(-4, 4));
    for (auto* numbers : {&scale_, &bias_, &mean_, &inverse_})
      for (float& each : *numbers) each = draw(0.2F, 3);
  }
  std::size_t elements() const { return elements_; }
  float wanted(u32 formula, std::size_t i) {
    const std::size_t c = shape_.of_row ? i / shape_.row % shape_.channels : i % shape_.row;
    return value_by(formula, static_cast<float>(x[i]), {scale_[c], bias_[c], mean_[c], inverse_[c]});
  }
  void fill_y(u32 formula) {
    for (std::size_t i = 0; i < elements_; ++i) y[i] = static_cast<T>(wanted(formula, i));
  }
  template <class Maker>
  std::array<bool, formulas> run(u32 how, u32 threads) {
    how |= (shape_.of_row ? of_row_bit : 0U) | (sizeof(T) == 2 ? half_bit : 0U);
    const Call call{x.begin(),        y.begin(),   scale_.begin(), bias_.begin(),   mean_.begin(),
                    inverse_.begin(), shape_.rows, shape_.row,     shape_.channels, how};
    std::array<bool, formulas> differs{};
    for (u32 thread = 0; thread < threads; ++thread) {
      Differences found;
      run_thread<Maker>(call, thread, threads, found);
      for (u32 f = 0; f < formulas; ++f) differs[f] = differs[f] || found.by[f] != 0;
    }
    return differs;
  }
  // By what the formulas make of x.
  std::array<bool, formulas> differing() {
    std::array<bool, formulas> differs{};
    for (u32 f = 0; f < formulas; ++f)
      for (std::size_t i = 0; i < elements_; ++i)
        differs[f] = differs[f] || !same_bits(static_cast<T>(wanted(f, i)), y[i]);
    return differs;
  }

 private:
  Shape shape_;
  std::size_t elements_;

 public:
  Array<T> x, y;

 private:
  Array<float> scale_, bias_, mean_, inverse_;
};

template <class Precision>
class BatchNormVector : public testing::Test {
 protected:
  // Each shape, aligned and not, by fewer threads than vectors and by more.
  template <class Body>
  static void for_each_case(Body&& body) {
    for (const Shape& shape : shapes) {
      for (const auto& [x, y, channel] :
           {std::array<std::size_t, 3>{0, 0, 0}, {1, 0, 0}, {0, 3, 0}, {0, 0, 1}}) {
        for (const u32 threads : {1U, 3U, 64U}) {
          SCOPED_TRACE(text(shape) + ", by " + std::to_string(threads) + " threads, after " +
                       std::to_string(x) + ", " + std::to_string(y) + " and " + std::to_string(channel));
          Case<typename Precision::Type> one(shape, x, y, channel);
          body(one, threads);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
};

// A name for _Float16, of which GCC 12 has no type_info.
struct Single {
  using Type = float;
};
struct Half {
  using Type = _Float16;
};
using Types = testing::Types<Single, Half>;
TYPED_TEST_SUITE(BatchNormVector, Types);

TYPED_TEST(BatchNormVector, MakesTheBitsOfEachFormulaAndTouchesNothingElse) {
  using T = typename TypeParam::Type;
  this->for_each_case([](Case<T>& one, u32 threads) {
    for (u32 formula = 0; formula < formulas; ++formula) {
      std::fill(one.y.begin(), one.y.end(), T{});
      const auto before = one.y.all();
      one.template run<Writer>(formula << formula_shift, threads);
      for (std::size_t i = 0; i < one.elements(); ++i) {
        ASSERT_TRUE(same_bits(one.y[i], static_cast<T>(one.wanted(formula, i)))) << formula << ", " << i;
        one.y[i] = T{};
      }
      const auto after = one.y.all();
      ASSERT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(Words)), 0);
    }
  });
}

TYPED_TEST(BatchNormVector, ClipsAndKeepsOrDropsWhatIsNoNumber) {
  using T = typename TypeParam::Type;
  using Limits = std::numeric_limits<float>;
  this->for_each_case([](Case<T>& one, u32 threads) {
    const float odd[] = {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), -0.0F};
    for (std::size_t i = 0; i < one.elements(); i += 3) one.x[i] = static_cast<T>(odd[i / 3 % 4]);
    for (u32 formula = 0; formula < formulas; ++formula) {
      // Not to clip whatever the other bit says; to keep NaN; to drop it.
      for (const u32 clip : {0U, 1U << drop_shift, 1U << clip_shift, 1U << clip_shift | 1U << drop_shift}) {
        one.template run<Writer>(formula << formula_shift | clip, threads);
        for (std::size_t i = 0; i < one.elements(); ++i) {
          float wanted = one.wanted(formula, i);
          if ((clip >> clip_shift & 1) != 0) {
            if (wanted <= 0 || (std::isnan(wanted) && (clip >> drop_shift & 1) != 0)) wanted = 0;
          }
          const auto made = one.y[i];
          if (std::isnan(wanted)) {
            ASSERT_TRUE(std::isnan(static_cast<float>(made)));
          } else {
            ASSERT_TRUE(same_bits(made, static_cast<T>(wanted))) << formula << ", " << clip << ", " << i;
          }
        }
      }
    }
  });
}

TYPED_TEST(BatchNormVector, ComparesWithEachFormulaAndWritesNothing) {
  using T = typename TypeParam::Type;
  this->for_each_case([](Case<T>& one, u32 threads) {
    for (u32 formula = 0; formula < formulas; ++formula) {
      one.fill_y(formula);
      const auto before = one.y.all();
      const auto differs = one.template run<Comparer>(0, threads);
      ASSERT_EQ(differs, one.differing());
      ASSERT_FALSE(differs[formula]);
      const auto after = one.y.all();
      ASSERT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(Words)), 0);
    }
  });
}

TYPED_TEST(BatchNormVector, FindsOneBitAnywhere) {
  using T = typename TypeParam::Type;
  using Bits = BitsOf<T>;
  for (const Shape& shape : {Shape{6, 49, 3}, {9, 3, 2}, {5, 12, 12, false}, {3, 7, 7, false}}) {
    for (const std::size_t ahead : {0U, 1U}) {
      Case<T> one(shape, ahead, ahead);
      for (u32 formula = 0; formula < formulas; ++formula) {
        one.fill_y(formula);
        ASSERT_FALSE(one.template run<Comparer>(0, 5)[formula]);
        for (std::size_t i = 0; i < one.elements(); ++i) {
          const auto right = one.y[i];
          one.y[i] = std::bit_cast<T>(
              static_cast<Bits>(std::bit_cast<Bits>(right) ^ Bits{1} << i % (8 * sizeof(Bits))));
          ASSERT_TRUE(one.template run<Comparer>(0, 5)[formula])
              << text(shape) << ": " << formula << ", " << i;
          one.y[i] = right;
        }
      }
    }
  }
}

// What tests cannot allocate: places far into a tensor, and rows that sums of 32 bits do not hold.
TEST(BatchNormPlace, MovesAsDivisionSays) {
  for (const u32 row : {1U, 2U, 49U, 3136U, 4095U, 0x7fffffffU, 0x80000001U, 0xfffffff0U, 0xffffffffU}) {
    for (const u32 channels : {1U, 2U, 3U, 64U, 2048U, 0xffffffffU}) {
      for (const u32 stride : {4U, 8U, 2000U, 3244032U, 0xfffffff8U}) {
        Call call{};
        call.row = row;
        call.channels = channels;
        const Place by = place_of(stride, call);
        Place at = place_of(12U, call);
        u64 element = 12;
        for (int k = 0; k < 1000; ++k, at = moved(at, by, call), element += stride) {
          ASSERT_EQ(at.in_row, element % row);
          ASSERT_EQ(at.channel, element / row % channels);
        }
      }
    }
  }
}

}  // namespace
}  // namespace pooch::batch_norm

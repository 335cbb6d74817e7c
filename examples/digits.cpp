#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "check.h"
#include "data.h"

namespace train {
namespace {

constexpr int total_images = 1797;
constexpr int test_stride = 5;

// One line: 64 pixels from 0 to 16, then the digit.
bool parse_line(const char* text, std::array<float, Digits::pixels>& pixels, int& label) {
  for (int i = 0; i <= Digits::pixels; ++i) {
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    const bool last = i == Digits::pixels;
    if (end == text || value < 0 || value > (last ? 9 : 16) || (!last && *end != ',')) return false;
    if (last) {
      label = static_cast<int>(value);
    } else {
      pixels[i] = static_cast<float>(value) / 8.0F - 1.0F;
    }
    text = end + 1;
  }
  return true;
}

class DigitsSource final : public Source {
 public:
  DigitsSource(const Digits& digits, int batch, std::uint64_t seed)
      : digits_(digits), batch_(batch), random_(seed), order_(digits.train_labels.size()) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  Shape image() const override { return {1, 1, 8, 8}; }
  int classes() const override { return 10; }
  int batches_per_epoch() const override { return static_cast<int>(order_.size()) / batch_; }

  void fill(int batch, float* images, std::vector<int>& labels) override {
    const int first = batch % batches_per_epoch() * batch_;
    if (first == 0) random_.shuffle(order_);
    for (int i = 0; i < batch_; ++i) {
      const int chosen = order_[first + i];
      std::copy_n(&digits_.train_images[std::size_t(chosen) * Digits::pixels], Digits::pixels,
                  images + std::size_t(i) * Digits::pixels);
      labels[i] = digits_.train_labels[chosen];
    }
  }

 private:
  const Digits& digits_;
  int batch_;
  Random random_;
  std::vector<int> order_;
};

class DigitsTestSource final : public Source {
 public:
  DigitsTestSource(const Digits& digits, int batch) : digits_(digits), batch_(batch) {}

  Shape image() const override { return {1, 1, 8, 8}; }
  int classes() const override { return 10; }
  int batches_per_epoch() const override { return 0; }

  void fill(int batch, float* images, std::vector<int>& labels) override {
    const std::size_t count = digits_.test_labels.size();
    for (int i = 0; i < batch_; ++i) {
      const std::size_t chosen = (std::size_t(batch) * batch_ + i) % count;
      std::copy_n(&digits_.test_images[chosen * Digits::pixels], Digits::pixels,
                  images + std::size_t(i) * Digits::pixels);
      labels[i] = digits_.test_labels[chosen];
    }
  }

 private:
  const Digits& digits_;
  int batch_;
};

}  // namespace

Digits read_digits(const std::string& folder) {
  const std::string path = folder + "/digits.csv.gz";
  const auto close = [](gzFile file) { gzclose(file); };
  const std::unique_ptr<gzFile_s, decltype(close)> file(gzopen(path.c_str(), "rb"), close);
  if (!file) throw Failure(Exit::failed, fmt::format("{}: cannot be opened", path));
  Digits digits;
  std::array<char, 4096> line{};
  std::array<float, Digits::pixels> pixels{};
  int count = 0;
  for (int label = 0; gzgets(file.get(), line.data(), static_cast<int>(line.size())) != nullptr; ++count) {
    if (!parse_line(line.data(), pixels, label)) {
      throw Failure(Exit::failed,
                    fmt::format("{}: line {} is not an image of 8 x 8 pixels", path, count + 1));
    }
    const bool test = count % test_stride == 0;
    auto& images = test ? digits.test_images : digits.train_images;
    images.insert(images.end(), pixels.begin(), pixels.end());
    (test ? digits.test_labels : digits.train_labels).push_back(label);
  }
  if (count != total_images) {
    throw Failure(Exit::failed, fmt::format("{}: {} images instead of {}", path, count, total_images));
  }
  return digits;
}

std::unique_ptr<Source> digits_source(const Digits& digits, int batch, std::uint64_t seed) {
  if (static_cast<std::size_t>(batch) > digits.train_labels.size()) {
    throw Failure(Exit::bad_usage, fmt::format("--batch {}: the digits have {} training images", batch,
                                               digits.train_labels.size()));
  }
  return std::make_unique<DigitsSource>(digits, batch, seed);
}

std::unique_ptr<Source> digits_test_source(const Digits& digits, int batch) {
  return std::make_unique<DigitsTestSource>(digits, batch);
}

}  // namespace train

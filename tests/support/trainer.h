// A small network that trains over a LazyDevice, behind a session: layers forward, half of them in place,
// then backward, then the updates, with memory that comes and goes in every iteration. Its numbers are whole,
// so that every run makes the same ones.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/lazy_device.h"

namespace pooch::test {

class Trainer {
 public:
  static constexpr std::uint64_t stride = 64 * KiB;  // a word each: enough to tell contents apart
  static constexpr int layers = 6;

  Trainer(LazyDevice& device, runtime::Session& session) : device_(device), session_(session) {}

  // False: the session refused a call.
  bool train(int iterations);
  // What each iteration's loss was, and what the weights are in the end.
  const std::vector<std::uint64_t>& numbers() const { return numbers_; }

 private:
  struct Tensor {
    Address address{};
    std::uint64_t bytes = 0;
  };
  struct Operand {
    Tensor tensor;
    Effect effect;
  };
  bool begin();
  bool iterate(std::uint64_t number);
  bool forward(std::uint64_t number);
  bool backward();
  bool make(Tensor& tensor, std::uint64_t bytes);
  bool end(Tensor& tensor);
  bool op(const char* function, OpKind kind, std::vector<Operand> operands);
  bool fill(const char* function, OpKind kind, const Tensor& tensor, std::uint64_t value);
  bool read(const Tensor& tensor);
  void launch(std::vector<Operand> operands, std::uint64_t salt, StreamHandle stream);

  LazyDevice& device_;
  runtime::Session& session_;
  StreamHandle stream_{};
  Tensor input_;
  std::vector<Tensor> maps_, weights_, gradients_;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace pooch::test

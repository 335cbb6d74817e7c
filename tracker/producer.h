// What wrote a version: a step, a host copy or a trial.
#pragma once

#include <cstdint>

namespace pooch::tracker {

// Index of a step among all steps of the run, from 0.
using StepIndex = std::uint64_t;

// The writer of a version.
class Producer {
 public:
  static constexpr Producer step(StepIndex index) { return Producer(index + 1); }
  // A host copy or a trial, and the number of steps before it.
  static constexpr Producer beside(StepIndex steps) { return Producer(beside_bit | steps); }
  constexpr bool is_step() const { return (value_ & beside_bit) == 0; }
  // The step itself, or the number of steps before it.
  constexpr StepIndex index() const { return is_step() ? value_ - 1 : value_ & ~beside_bit; }
  friend constexpr bool operator==(Producer, Producer) = default;

 private:
  static constexpr std::uint64_t beside_bit = std::uint64_t{1} << 63;
  explicit constexpr Producer(std::uint64_t value) : value_(value) {}
  std::uint64_t value_;
};

}  // namespace pooch::tracker

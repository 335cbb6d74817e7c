// What shared memory may hold, as far as one thread's way tells.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>

#include "tools/effects/value.h"

namespace pooch::effects {

// Where each thread stores: what two registers held that were set once in a thread's life, plus `offset`. Two
// equal ones are the same bytes. All zero: anywhere.
struct SharedPlace {
  std::uint32_t first = 0, second = 0;  // Cell::definition
  std::int64_t offset = 0;
  std::uint32_t bytes = 0;

  auto operator<=>(const SharedPlace&) const = default;
  bool known() const { return bytes != 0; }
};

// The halves of words of 64 bits.
using SharedHalves = std::array<ValueId, 2>;

class SharedContent {
 public:
  // `replaces`: what was there is gone.
  void store(Values& values, const SharedPlace& at, const SharedHalves& data, bool replaces);
  void join_into(Values& values, SharedHalves& all) const;
  // True: this has changed.
  bool join(Values& values, const SharedContent& other);

 private:
  std::map<SharedPlace, SharedHalves> places_;
};

// True: `all` has changed.
bool join(Values& values, SharedHalves& all, const SharedHalves& more);

}  // namespace pooch::effects

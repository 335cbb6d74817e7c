// Hashing of small things into 64 bits; equal in every run and process.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace pooch {

// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over a running state. The state is multiplied
// first: sums of small numbers would collide.
constexpr std::uint64_t mix(std::uint64_t state, std::uint64_t value) {
  std::uint64_t z = state * 0xd1342543de82ef95u + 0x9e3779b97f4a7c15u + value;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Eight characters at a time: every call hashes its function's name.
inline std::uint64_t hash(std::string_view text) {
  std::uint64_t state = text.size();
  for (; text.size() > 8; text.remove_prefix(8)) {
    std::uint64_t word;
    std::memcpy(&word, text.data(), sizeof word);
    state = mix(state, word);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, text.data(), text.size());
  return mix(state, rest);
}

static_assert(mix(1, 2) != mix(2, 1) && mix(0, 1) != mix(1, 1) && mix(mix(0, 1), 2) != mix(mix(0, 2), 1));

}  // namespace pooch

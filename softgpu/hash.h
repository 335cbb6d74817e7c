// A hash of words, the same in every run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace softgpu {

__extension__ using Product = unsigned __int128;

class Hash {
 public:
  explicit Hash(std::uint64_t seed = 0) : state_(seed) {}

  // One multiplication, folded, as wyhash has it.
  Hash& add(std::uint64_t word) {
    const auto product = static_cast<Product>(state_ ^ 0xA0761D6478BD642F) * (word ^ 0xE7037ED1A0B428DB);
    state_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    return *this;
  }
  Hash& add_bytes(const void* from, std::uint64_t bytes) {
    const char* at = static_cast<const char*>(from);
    for (std::uint64_t left = bytes; left > 0;) {
      const std::uint64_t part = std::min<std::uint64_t>(8, left);
      std::uint64_t word = 0;
      std::memcpy(&word, at, part);
      add(word);
      at += part;
      left -= part;
    }
    return add(bytes);
  }
  Hash& add(std::string_view text) { return add_bytes(text.data(), text.size()); }
  std::uint64_t value() const { return mixed(state_); }

  static std::uint64_t mixed(std::uint64_t x) {  // the finaliser of splitmix64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace softgpu

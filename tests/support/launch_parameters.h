#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace pooch::test {

// The parameters of a launch.
class LaunchParameters {
 public:
  explicit LaunchParameters(std::size_t size) : bytes_(size) {}
  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
  }
  std::uint64_t read(std::int64_t offset, unsigned bytes) const {
    std::uint64_t value = 0;
    if (offset >= 0 && static_cast<std::size_t>(offset) + bytes <= bytes_.size())
      std::memcpy(&value, bytes_.data() + offset, bytes);
    return value;
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(bytes_.size()); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace pooch::test

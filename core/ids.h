// Strong types for numbers, so that an address is never taken for a size.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace pooch {

// A device virtual address, as the program sees it.
enum class Address : std::uint64_t {};
constexpr std::uint64_t raw(Address a) {
  return static_cast<std::uint64_t>(a);
}
constexpr Address operator+(Address a, std::uint64_t bytes) {
  return Address{raw(a) + bytes};
}
constexpr std::uint64_t operator-(Address a, Address b) {
  return raw(a) - raw(b);
}

// One allocation's identity; never reused within a process, unlike its address.
enum class AllocationId : std::uint64_t { none = 0 };
// The driver's handle of one piece of physical device memory (CUmemGenericAllocationHandle).
enum class PhysicalHandle : std::uint64_t {};
// A CUstream, normalised: never 0. `legacy` and `per_thread` are the driver's own values for those streams.
enum class StreamHandle : std::uintptr_t { legacy = 1, per_thread = 2 };
// A CUevent.
enum class EventHandle : std::uintptr_t { none = 0 };

inline constexpr std::uint64_t KiB = std::uint64_t{1} << 10;
inline constexpr std::uint64_t MiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t GiB = std::uint64_t{1} << 30;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace pooch

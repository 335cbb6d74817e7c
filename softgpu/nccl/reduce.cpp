// The arithmetic: narrow types go through double, all others stay what they are.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "softgpu/bfloat.h"
#include "softgpu/nccl/exchange.h"

namespace softgpu::nccl {
namespace {

// Calls visit with a null pointer of the type; false where there is no arithmetic for it.
template <class Visit>
bool with_type(ncclDataType_t type, Visit visit) {
  switch (type) {
    case ncclInt8:
      return visit(static_cast<std::int8_t*>(nullptr)), true;
    case ncclUint8:
      return visit(static_cast<std::uint8_t*>(nullptr)), true;
    case ncclInt32:
      return visit(static_cast<std::int32_t*>(nullptr)), true;
    case ncclUint32:
      return visit(static_cast<std::uint32_t*>(nullptr)), true;
    case ncclInt64:
      return visit(static_cast<std::int64_t*>(nullptr)), true;
    case ncclUint64:
      return visit(static_cast<std::uint64_t*>(nullptr)), true;
    case ncclFloat16:
      return visit(static_cast<_Float16*>(nullptr)), true;
    case ncclFloat32:
      return visit(static_cast<float*>(nullptr)), true;
    case ncclFloat64:
      return visit(static_cast<double*>(nullptr)), true;
    case ncclBfloat16:
      return visit(static_cast<Bfloat*>(nullptr)), true;
    default:
      return false;
  }
}

template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, double, T>;

template <class T>
T load(const std::byte* from, std::uint64_t index) {
  alignas(T) std::byte bytes[sizeof(T)];
  std::memcpy(bytes, from + index * sizeof(T), sizeof(T));
  return *reinterpret_cast<const T*>(bytes);
}

// Integers wrap around, as on the device.
template <class W>
W combine(int op, W a, W b) {
  using Sum = std::conditional_t<std::is_integral_v<W>, std::make_unsigned<W>, std::type_identity<W>>;
  using S = typename Sum::type;
  switch (op) {
    case ncclProd:
      return static_cast<W>(static_cast<S>(a) * static_cast<S>(b));
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:  // sums, and averages until they are divided
      return static_cast<W>(static_cast<S>(a) + static_cast<S>(b));
  }
}

}  // namespace

std::size_t element_bytes(ncclDataType_t type) {
  std::size_t bytes = 0;
  with_type(type, [&](auto* of) { bytes = sizeof(*of); });
  return bytes;
}

void reduce(const Exchange& exchange, std::uint64_t first, std::uint64_t count, std::byte* to) {
  const Task& task = exchange.tasks.front();
  with_type(task.type, [&](auto* of) {
    using T = std::remove_pointer_t<decltype(of)>;
    using W = Wide<T>;
    for (std::uint64_t i = 0; i < count; ++i) {
      W sum = static_cast<W>(load<T>(exchange.staged.front().data(), first + i));
      for (std::size_t rank = 1; rank < exchange.staged.size(); ++rank)
        sum = combine<W>(task.op, sum, static_cast<W>(load<T>(exchange.staged[rank].data(), first + i)));
      if (task.op == ncclAvg) sum = static_cast<W>(sum / static_cast<W>(exchange.staged.size()));
      const T result = static_cast<T>(sum);
      std::memcpy(to + i * sizeof(T), &result, sizeof(T));
    }
  });
}

void scale(std::vector<std::byte>& data, ncclDataType_t type, double factor) {
  with_type(type, [&](auto* of) {
    using T = std::remove_pointer_t<decltype(of)>;
    using W = Wide<T>;
    for (std::uint64_t i = 0; i < data.size() / sizeof(T); ++i) {
      const T result = static_cast<T>(
          combine<W>(ncclProd, static_cast<W>(load<T>(data.data(), i)), static_cast<W>(factor)));
      std::memcpy(data.data() + i * sizeof(T), &result, sizeof(T));
    }
  });
}

double number_at(const void* element, ncclDataType_t type) {
  double number = 0;
  with_type(type, [&](auto* of) {
    using T = std::remove_pointer_t<decltype(of)>;
    number = static_cast<double>(load<T>(static_cast<const std::byte*>(element), 0));
  });
  return number;
}

}  // namespace softgpu::nccl

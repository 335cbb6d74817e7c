// Calls that can be made again. A wrapper that is asked to keep its call turns every argument into something
// that lasts, and all of them into one Replay (core/replay.h):
//
//   number, enumerator       its value                       keep_value
//   pointer to an operand    which access, how far into it   keep_operand
//   factor in host memory    its bytes                       keep_scalar
//   descriptor               a descriptor of our own         keep_descriptor
//   library handle           a handle of our own, with the   keep_handle
//                            settings of the program's
//   stream                   the one of the run              keep_stream
//
// Factors, descriptors and handles are kept by each library's own replay.h.
// The real functions are called, so no wrapper is entered; which rows have a recipe says spec/.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "core/call.h"
#include "core/replay.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/scope.h"

namespace pooch::interpose {

// What a call is kept with: valid during the call.
struct Keeping {
  Keeping(const Scope& in, std::span<const Access> of) : scope(in), accesses(of) {}
  const Scope& scope;
  std::span<const Access> accesses;
};

// One time that a kept call is made.
struct Run {
  std::span<const Address> operands;
  StreamHandle stream;
};

// Every kept argument has: kept(), false where there is no copy and so no recipe; prepare(run), a vendor's
// status, before any argument is used; in(run), the argument itself.
struct KeptArgument {
  bool kept() const { return true; }
  int prepare(const Run&) { return 0; }
};

template <class T>
struct KeptValue : KeptArgument {
  T value;
  explicit KeptValue(T v) : value(v) {}
  T in(const Run&) const { return value; }
};
template <class T>
requires std::integral<T> || std::floating_point<T> || std::is_enum_v<T> KeptValue<T> keep_value(T value) {
  return KeptValue<T>(value);
}
// A pointer that a replay gives as null: the API allows it, and leaves out what must not happen twice.
inline KeptValue<std::nullptr_t> keep_nothing() {
  return KeptValue<std::nullptr_t>(nullptr);
}

// As every parameter that takes it wants it.
struct DevicePointer {
  std::uint64_t address;
  template <class T>
  operator T*() const {
    return reinterpret_cast<T*>(address);
  }
  operator CUdeviceptr() const { return address; }
};
struct HostPointer {
  const void* memory;
  template <class T>
  operator const T*() const {
    return static_cast<const T*>(memory);
  }
};

// A pointer into an access moves along with it; any other one, null too, stays.
class KeptOperand : public KeptArgument {
 public:
  KeptOperand(std::span<const Access> accesses, std::uint64_t address);
  DevicePointer in(const Run& run) const {
    return {access_ == outside ? offset_ : raw(run.operands[access_]) + offset_};
  }

 private:
  static constexpr std::uint32_t outside = ~std::uint32_t{0};
  std::uint32_t access_ = outside;
  std::uint64_t offset_;  // from the access's beginning; outside of all, the address itself
};
inline KeptOperand keep_operand(const Keeping& keeping, const void* pointer) {
  return {keeping.accesses, reinterpret_cast<std::uintptr_t>(pointer)};
}
inline KeptOperand keep_operand(const Keeping& keeping, CUdeviceptr pointer) {
  return {keeping.accesses, pointer};
}

// A few bytes of host memory, read at the call: a blending factor, the value that a tensor is set to.
class KeptScalar : public KeptArgument {
 public:
  // No bytes: nobody knows how many, and the call cannot be kept. A null pointer stays null.
  KeptScalar(const void* from, std::size_t bytes);
  bool kept() const { return known_; }
  HostPointer in(const Run&) const { return {null_ ? nullptr : bytes_.data()}; }

 private:
  alignas(16) std::array<std::byte, 16> bytes_{};
  bool null_, known_;
};

// A descriptor of our own.
template <class Descriptor>
class KeptDescriptor : public KeptArgument {
 public:
  using Destroy = void (*)(Descriptor);
  // Takes `clone` over; a null one may be the copy of null, or of what cannot be copied.
  KeptDescriptor(Descriptor clone, Destroy destroy, bool is_kept)
      : clone_(clone), destroy_(destroy), kept_(is_kept) {}
  KeptDescriptor(KeptDescriptor&& from) noexcept
      : clone_(std::exchange(from.clone_, nullptr)), destroy_(from.destroy_), kept_(from.kept_) {}
  ~KeptDescriptor() {
    if (clone_ != nullptr) destroy_(clone_);
  }
  bool kept() const { return kept_; }
  Descriptor in(const Run&) const { return clone_; }

 private:
  Descriptor clone_;
  Destroy destroy_;
  bool kept_;
};

// The driver's own values for the default streams hold in both of its ABIs.
struct KeptStream : KeptArgument {
  CUstream in(const Run& run) const {
    return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(run.stream));
  }
};
inline KeptStream keep_stream() {
  return {};
}

// Replays share the handles of our own, so they are made one after the other. A library that calls exported
// functions again must not be taken for the program, in whatever place the session makes a replay; within a
// wrapper's call the wrapper's own Scope says that, and what the library allocates is noted as its.
class ReplayGuard {
 public:
  ReplayGuard();

 private:
  std::lock_guard<std::mutex> lock_;
  std::optional<Scope> scope_;
};

// `status` of `function`, made again.
Status replay_status(const char* function, int status);
Status wrong_operands(const char* function, std::size_t given, std::size_t wanted);

template <class Function, class... Kept>
class KeptCall final : public Replay {
 public:
  KeptCall(const char* function, Function* real, std::size_t operands, Kept&&... kept)
      : function_(function), real_(real), operands_(operands), kept_(std::move(kept)...) {}

  Status run(std::span<const Address> operands, StreamHandle stream) override {
    if (operands.size() != operands_) return wrong_operands(function_, operands.size(), operands_);
    const ReplayGuard guard;
    const Run run{operands, stream};
    return replay_status(function_, std::apply(
                                        [&](auto&... kept) {
                                          int status = 0;
                                          ((status = status != 0 ? status : kept.prepare(run)), ...);
                                          return status != 0 ? status
                                                             : static_cast<int>(real_(kept.in(run)...));
                                        },
                                        kept_));
  }

 private:
  const char* function_;  // static storage
  Function* real_;
  std::size_t operands_;
  std::tuple<Kept...> kept_;
};

// nullptr where one of the arguments cannot be kept, or there is no such function.
template <class Function, class... Kept>
std::unique_ptr<Replay> keep_call(const Keeping& keeping, const char* function, Function* real,
                                  Kept... kept) {
  if (real == nullptr || !(kept.kept() && ...)) return nullptr;
  return std::make_unique<KeptCall<Function, Kept...>>(function, real, keeping.accesses.size(),
                                                       std::move(kept)...);
}

}  // namespace pooch::interpose

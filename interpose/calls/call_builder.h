// Collects the operands of one call and hands it to the session. Generated wrappers are made of this.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/call.h"
#include "core/function_ref.h"
#include "core/hash.h"
#include "interpose/calls/capture.h"
#include "interpose/calls/extent.h"
#include "interpose/callsites/callsites.h"
#include "interpose/sessions/again.h"
#include "runtime/session/session.h"

namespace pooch::interpose {

// Of a library's status type: what a call returns that is not made for another reason than want of memory.
template <class Status>
struct NotMade;
template <>
struct NotMade<CUresult> {
  static constexpr CUresult status = CUDA_ERROR_UNKNOWN;
};

// What kind of number a blending factor is, as a trait of the call.
enum class Scalar : std::uint8_t { zero, one, other, unknown };

class CallBuilder {
 public:
  // `function` is static storage. `scope` is the wrapper's.
  CallBuilder(const Scope& scope, runtime::Session& session, const char* function, OpKind kind,
              StreamHandle stream)
      : scope_(scope), session_(session), function_(function), kind_(kind), stream_(stream) {}

  // Null pointers and empty extents are skipped; an operand that appears twice gets the join of its effects.
  void add(Address address, const Extent& extent, Effect effect);
  void add(const void* pointer, const Extent& extent, Effect effect) {
    add(Address{reinterpret_cast<std::uintptr_t>(pointer)}, extent, effect);
  }
  void add(CUdeviceptr pointer, const Extent& extent, Effect effect) {
    add(Address{pointer}, extent, effect);
  }
  void add(const Side& side, Effect effect) { add(Address{side.address}, side.extent, effect); }

  // The host waits for the device inside of the call.
  void blocks(bool yes) { blocks_ = yes; }
  // The call tries algorithms out.
  void trial() { trial_ = true; }
  // It may touch memory that no operand names.
  void unforeseen() { unforeseen_ = true; }
  bool is_unforeseen() const { return unforeseen_; }

  // What the call says beside its operands; together it tells calls apart that are alike in their operands.
  template <class Value>
  requires std::integral<Value> || std::is_enum_v<Value>
  void trait(Value value) { traits_ = mix(traits_, static_cast<std::uint64_t>(value)); }
  // Numbers change from step to step; what decides about effects is whether they are zero or one.
  void trait(double value) { trait(value == 0 ? 0 : value == 1 ? 1 : 2); }
  void tried(TriedAlgorithm algorithm) { tried_ = algorithm; }
  void mode(std::string_view text) { mode_ = text; }  // static storage
  Window& window() { return window_; }
  // How to keep a deep copy of the call; `make` must last until submit has returned.
  void keep(FunctionRef<std::unique_ptr<Replay>()> make) { keep_ = make; }
  // Beyond that it does nothing.
  void clip(Clip clip) { clip_ = clip; }
  // By what other means its result can be made again; as for keep.
  void substitute(FunctionRef<std::optional<Substitute>()> find) { substitute_ = find; }
  OpKind kind() const { return kind_; }
  runtime::Session& session() const { return session_; }
  const char* function() const { return function_; }
  StreamHandle stream() const { return stream_; }
  std::uint64_t traits() const { return traits_; }

  std::span<const Access> accesses() const {
    return spilled_.empty() ? std::span<const Access>(fixed_.data(), count_)
                            : std::span<const Access>(spilled_);
  }

  // Makes the operands resident, runs `launch`, returns its status; `out_of_memory` or NotMade where that
  // cannot be. One body serves all libraries: there are hundreds of wrappers.
  template <class Status, class Launch>
  Status submit(Status out_of_memory, Launch&& launch) {
    constexpr bool driver = std::is_same_v<Status, CUresult>;
    const Answers answers{static_cast<int>(out_of_memory), static_cast<int>(NotMade<Status>::status), driver};
    return static_cast<Status>(run(answers, [&]() -> int { return static_cast<int>(launch()); }));
  }

 private:
  // Statuses of the call's library, for where it is not made, and whether that is the driver.
  struct Answers {
    int out_of_memory, not_made;
    bool driver;
  };
  int run(const Answers& answers, FunctionRef<int()> launch);
  // The real call, within the session's submit. A library that got to the driver past our wrappers may be
  // short of memory all the same (interpose/sessions/again.h).
  int make(const Answers& answers, FunctionRef<int()> launch);
  // After it was short of memory. A call of the driver's has then done nothing. A library may have done a
  // part of its own: what reads nothing that it writes comes out the same all the same. No collective: others
  // take part.
  bool may_be_made_again(bool driver) const;
  std::span<Access> mutable_accesses() {
    return spilled_.empty() ? std::span<Access>(fixed_.data(), count_) : std::span<Access>(spilled_);
  }
  void append(Address address, std::uint64_t bytes, Effect effect, const Shape& shape);
  void add_everything();
  void explain_refusal() const;

  const Scope& scope_;
  runtime::Session& session_;
  const char* function_;
  OpKind kind_;
  StreamHandle stream_;
  bool blocks_ = false, trial_ = false, unforeseen_ = false;
  bool everything_ = false;  // all live allocations are operands
  std::uint64_t traits_ = 0;
  std::string_view mode_;
  Window window_;
  Shape filter_;
  TriedAlgorithm tried_;
  Clip clip_ = Clip::none;
  std::optional<FunctionRef<std::unique_ptr<Replay>()>> keep_;
  std::optional<FunctionRef<std::optional<Substitute>()>> substitute_;
  // Nearly every call has few operands: no heap allocation for those, and nothing done to the unused ones.
  union {
    std::array<Access, 16> fixed_;
  };
  std::size_t count_ = 0;
  std::vector<Access> spilled_;
  // All operands so far lie in [low_, high_). One outside of it overlaps none of them.
  Address low_{~std::uint64_t{0}}, high_{};
};

// What a call is about to copy to the device from host memory: what addresses in it point to is kept there.
// Ahead of everything else: it may wait for calls that are on their way.
void note_carried(const Scope& scope, runtime::Session& session, CUdeviceptr to, const void* from,
                  std::size_t bytes);
// ... if it is host memory that the call copies from.
void note_carried(const Scope& scope, runtime::Session& session, CUdeviceptr to, CUdeviceptr from,
                  std::size_t bytes);
void note_carried(const Scope& scope, runtime::Session& session, const CUDA_MEMCPY2D& copy);
void note_carried(const Scope& scope, runtime::Session& session, const CUDA_MEMCPY3D& copy);
void note_carried(const Scope& scope, runtime::Session& session, const CUDA_MEMCPY3D_PEER& copy);
void note_carried(const Scope& scope, runtime::Session& session, const CUDA_MEMCPY3D_BATCH_OP& copy);

}  // namespace pooch::interpose

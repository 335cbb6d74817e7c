// What a library does inside of a wrapped call. The session's mutex is held around the real call, so
// allocations that are made in there are noted on the thread and accounted for afterwards.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "core/call.h"
#include "interpose/hooks/scope.h"
#include "interpose/sessions/pool_accounts.h"
#include "interpose/sessions/served.h"
#include "runtime/session/session.h"

namespace pooch::interpose {

// The first session's, the only one where calls may pass; nullptr: there is none, or pooch has stood down.
extern constinit std::atomic<runtime::Watch*> first_watch;

// The wrapped call that the thread is in.
struct Inside {
  int depth = 0;       // of its scope; 0: in none
  bool noted = false;  // it has allocated or freed something
  std::span<const Access> operands;
};
[[gnu::tls_model("initial-exec")]] inline constinit thread_local Inside inside{};

// True exactly for calls that the library makes itself, not for those that the driver makes below.
inline bool directly_inside_submit(const Scope& scope) {
  return inside.depth != 0 && scope.depth() == inside.depth + 1;
}
// Whether the thread is anywhere inside of a submit.
inline bool inside_submit() {
  return inside.depth != 0;
}
void note_allocated_inside(Address address, std::uint64_t bytes, PoolAccount* pool);
void note_freed_inside(Address address);
// What was noted inside of the call that has ended is the session's from now on.
void account_for_noted(runtime::Session& session);

// The live managed allocation at `address`, also while this thread holds the session's mutex; then what the
// call itself told of it.
std::optional<runtime::Extent> find_allocation(const runtime::Session& session, Address address);

// Brackets Session::submit; the destructor hands over what was noted.
class SubmitGuard {
 public:
  SubmitGuard(const Scope& scope, runtime::Session& session, std::span<const Access> operands);
  ~SubmitGuard();
  SubmitGuard(const SubmitGuard&) = delete;
  SubmitGuard& operator=(const SubmitGuard&) = delete;

 private:
  runtime::Session& session_;
};

// A call of which nobody need know, as long as this lives; false: somebody may. The program's launches all
// come through here first: a few lines of memory decide, whatever session there is and context is current.
class Unwatched {
 public:
  explicit Unwatched(const Scope& scope) {
    runtime::Watch* const watch = first_watch.load(std::memory_order_acquire);
    if (watch == nullptr || !scope.outermost() || !watch->lets_pass()) return;
    passes_ = watch;
    inside.depth = scope.depth();
  }
  ~Unwatched() {
    if (passes_ == nullptr) return;
    inside.depth = 0;
    passes_->passed();
    if (!inside.noted) return;
    if (runtime::Session* const session = open_session()) account_for_noted(*session);
  }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
  explicit operator bool() const { return passes_ != nullptr; }

 private:
  runtime::Watch* passes_ = nullptr;
};

}  // namespace pooch::interpose

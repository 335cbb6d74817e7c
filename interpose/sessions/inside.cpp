#include "interpose/sessions/inside.h"

#include <vector>

#include "core/log.h"
#include "core/per_thread.h"

namespace pooch::interpose {

constinit std::atomic<runtime::Watch*> first_watch{nullptr};

namespace {

// What happened inside of a submit on this thread, in order.
struct Noted {
  Address address;
  std::uint64_t bytes;
  bool allocated;
  PoolAccount* pool;
};
std::vector<Noted>& noted() {
  return per_thread<std::vector<Noted>>();
}
void note_inside(const Noted& what) {
  noted().push_back(what);
  inside.noted = true;
}

}  // namespace

void note_allocated_inside(Address address, std::uint64_t bytes, PoolAccount* pool) {
  charge(pool, bytes, ServedBy::driver);
  note_inside({address, bytes, true, pool});
}
void note_freed_inside(Address address) {
  note_inside({address, 0, false, nullptr});
}

std::optional<runtime::Extent> find_allocation(const runtime::Session& in, Address address) {
  if (inside.depth == 0 || inside.operands.empty()) return in.find(address);
  for (const Access& operand : inside.operands) {
    if (address >= operand.address && address - operand.address < operand.bytes) {
      return runtime::Extent{operand.address, operand.bytes};
    }
  }
  return std::nullopt;
}

SubmitGuard::SubmitGuard(const Scope& scope, runtime::Session& in, std::span<const Access> operands)
    : session_(in) {
  inside = {scope.depth(), false, operands};
}

SubmitGuard::~SubmitGuard() {
  inside.depth = 0;
  inside.operands = {};
  if (inside.noted) account_for_noted(session_);
}

void account_for_noted(runtime::Session& session) {
  inside.noted = false;
  for (const Noted& one : noted()) {
    if (!one.allocated) {
      // What a library allocates for itself is no operand of a replay.
      if (const auto gone = session.pass_through_freed(one.address); gone && *gone)
        if (const auto* const origin = static_cast<const Origin*>((*gone)->origin))
          discharge(origin->account, (*gone)->bytes, ServedBy::driver);
      continue;
    }
    // The memory is there already; admitting it makes the rest move over.
    if (!session.admit_pass_through(one.bytes)) {
      log::warn("a library took {} bytes of device memory inside a call, which the cap has no room for",
                one.bytes);
      discharge(one.pool, one.bytes, ServedBy::driver);
      continue;
    }
    session.passed_through(one.address, one.bytes, /*by_program=*/false, origin_of(one.pool));
  }
  noted().clear();
}

}  // namespace pooch::interpose

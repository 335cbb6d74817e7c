#include "runtime/session/failures.h"

#include <fmt/core.h>

#include <utility>

#include "core/log.h"

namespace pooch::runtime {

void Failures::report(std::string_view where, const Error& why, std::string_view consequence) {
  if (first(Kind::harmless)) log::warn("{}: {}; {}", where, why.message, consequence);
}

void Failures::fail(std::string_view where, const Error& why) {
  if (failed_.exchange(true)) return;
  log::failure(fmt::format(
      "{}: {}; every call that uses device memory fails from now on, rather than read a doubtful value",
      where, why.message));
}

bool Failures::said_shortage() const {
  const std::lock_guard leaf(shortage_mutex_);
  return !last_shortage_.empty();
}

int Failures::refuse(std::string_view where, const Error& why, bool doubtful, const Refusal& refusal) {
  if (failed()) return refusal.failed;  // said already; this call was on its way then
  if (why.code == ErrorCode::out_of_memory && !doubtful) {
    std::string_view shortage = why.message;
    if (shortage.starts_with(where)) shortage.remove_prefix(where.size());
    const bool said = [&] {  // by another call, or thread
      const std::lock_guard leaf(shortage_mutex_);
      return std::exchange(last_shortage_, shortage) == shortage;
    }();
    if (!said) log::failure(why.message);
    return refusal.out_of_memory;
  }
  fail(where, why);
  return refusal.failed;
}

}  // namespace pooch::runtime

#include "runtime/planning/disorder.h"

#include <fmt/core.h>

#include <string>

#include "core/log.h"

namespace pooch::runtime {

void Disorder::note() {
  // Two iterations of a network of a thousand layers; of what else is trained today many.
  constexpr std::uint64_t long_enough = 1U << 17;
  if (explained_) return;
  if (iterations_.where()) {
    latest_ = 0;
    ++ordered_;
    return;
  }
  threads_.insert(std::this_thread::get_id());
  ++disordered_;
  if (++latest_ == long_enough) explain("the latest ", latest_);
}

void Disorder::finish() {
  // One thread's program may just be over before it repeats itself.
  // By chance a few of many threads' ops may have repeated themselves.
  if (!explained_ && disordered_ > ordered_ && threads_.size() > 1) explain("", disordered_);
}

void Disorder::explain(std::string_view which, std::uint64_t ops) {
  explained_ = true;
  const std::string from =
      threads_.size() == 1
          ? ""
          : fmt::format("; {} threads make them, and a plan needs them in the same order each time",
                        threads_.size());
  log::warn("no plan: {}{} ops do not repeat themselves{}", which, ops, from);
}

}  // namespace pooch::runtime

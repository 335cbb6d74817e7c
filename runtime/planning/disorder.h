// Says once why there is no plan, if the program's ops keep coming in an order that does not repeat.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <thread>

#include "tracker/iterations.h"

namespace pooch::runtime {

class Disorder {
 public:
  explicit Disorder(const tracker::Iterations& iterations) : iterations_(iterations) {}

  // The calling thread has launched an op.
  void note();
  // No more ops come.
  void finish();

 private:
  void explain(std::string_view which, std::uint64_t ops);

  const tracker::Iterations& iterations_;
  std::uint64_t latest_ = 0;                    // ops in a row that are part of no phase
  std::uint64_t ordered_ = 0, disordered_ = 0;  // all ops: those that are, those that are not
  std::set<std::thread::id> threads_;           // that launched the latter
  bool explained_ = false;
};

}  // namespace pooch::runtime

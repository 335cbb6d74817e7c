// A Session that stands in for runtime/'s behind the real wrappers: it keeps every call that offers a recipe,
// with the bytes of its operands before and after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/call.h"

namespace replay_test {

using Bytes = std::vector<unsigned char>;

struct KeptOp {
  std::string function;
  pooch::OpKind kind{};
  bool offered = false;  // the call said how to keep it
  std::unique_ptr<pooch::Replay> recipe;
  std::vector<pooch::Access> accesses;
  std::vector<Bytes> before, after;  // of each access
  int status = 0;
};

// Those since the last clear().
std::vector<KeptOp>& ops();
// Without copies of the operands, for measuring.
void snapshots(bool yes);
// Device memory that counts as managed, until forget_owned().
void own(const void* memory, std::uint64_t bytes);
// ... as the driver's, of which pooch knows.
void know(const void* memory, std::uint64_t bytes);
void forget_owned();

}  // namespace replay_test

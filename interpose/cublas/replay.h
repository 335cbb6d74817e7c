// How cuBLAS's factors and handles are kept for a replay.
#pragma once

#include <cublas_v2.h>

#include <array>

#include "interpose/calls/extent.h"
#include "interpose/calls/replay_call.h"

namespace pooch::interpose {

// A factor in host memory.
template <class Factor>
KeptScalar keep_scalar(const Keeping&, const Factor* factor) {
  return {factor, sizeof *factor};
}
// The same where only a data type tells its size.
inline KeptScalar keep_scalar(const Keeping&, const void* factor, const Extent& extent) {
  return {factor, extent.known ? extent.bytes : 0};
}

// Our own handle: one per process, made with the first call that is kept, and set for each run as the
// program's handle was at the call: math mode, target of multiprocessors, emulation, and the workspace where
// the program gave one (it is an operand). Without one, cuBLAS's default applies, which depends on the device
// and CUBLAS_WORKSPACE_CONFIG alone.
//
// No recipe where the handle admits atomics: the sums' order is then left to chance.
class KeptCublasHandle : public KeptArgument {
 public:
  static constexpr int settings = 7;
  KeptCublasHandle(const Keeping& keeping, cublasHandle_t programs);
  bool kept() const { return own_ != nullptr; }
  int prepare(const Run& run);
  cublasHandle_t in(const Run&) const { return own_; }

 private:
  cublasHandle_t own_ = nullptr;
  std::array<int, settings> values_{};
  KeptOperand workspace_;
  std::size_t workspace_bytes_;
  bool workspace_given_;  // else cuBLAS's own
};
inline KeptCublasHandle keep_handle(const Keeping& keeping, cublasHandle_t programs) {
  return {keeping, programs};
}

}  // namespace pooch::interpose

// How the driver's descriptions of pitched copies are kept for a replay.
#pragma once

#include "interpose/calls/extent.h"
#include "interpose/calls/replay_call.h"

namespace pooch::interpose {

// A CUDA_MEMCPY2D or CUDA_MEMCPY3D between device memory and device memory. An access begins where the copied
// box does, which may be far after the pointer.
template <class Copy>
class KeptCopy : public KeptArgument {
 public:
  KeptCopy(const Keeping& keeping, const Copy& copy)
      : copy_(copy), from_(begin(keeping, source_of(copy))), to_(begin(keeping, destination_of(copy))) {}
  const Copy* in(const Run& run) {
    copy_.srcDevice = base(run, from_, source_of(copy_));
    copy_.dstDevice = base(run, to_, destination_of(copy_));
    return &copy_;
  }

 private:
  static KeptOperand begin(const Keeping& keeping, const Side& side) {
    return keep_operand(keeping, CUdeviceptr{side.address + side.extent.offset});
  }
  static CUdeviceptr base(const Run& run, const KeptOperand& begin, const Side& side) {
    return static_cast<CUdeviceptr>(begin.in(run)) - side.extent.offset;
  }

  Copy copy_;
  KeptOperand from_, to_;
};

template <class Copy>
KeptCopy<Copy> keep_copy(const Keeping& keeping, const Copy* copy) {
  return {keeping, *copy};
}

}  // namespace pooch::interpose

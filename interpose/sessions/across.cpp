#include "interpose/sessions/across.h"

#include "interpose/hooks/driver_api.h"

#include <vector>

#include "interpose/hooks/libraries.h"
#include "interpose/sessions/context.h"
#include "interpose/sessions/served.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cuda, cuCtxSynchronize);
POOCH_REAL(cuda, cuStreamSynchronize);

}  // namespace

runtime::Session* other_owner(const runtime::Session& own, std::span<const Access> accesses) {
  if (served().size() < 2) return nullptr;
  for (const Access& access : accesses)
    if (runtime::Session* const owner = session_owning(access.address); owner != nullptr && owner != &own)
      return owner;
  return nullptr;
}

int submit_across(const Scope& scope, const runtime::Session& own, runtime::Session& other, const Call& call,
                  FunctionRef<int()> launch, runtime::Refusal refusal) {
  std::vector<Access> there;
  for (const Access& access : call.accesses)
    if (other.owns(access.address)) there.push_back(access);
  Call part{call.function, call.kind, StreamHandle::legacy, there};
  part.blocks = true;  // the other session's mutex is free meanwhile: two such calls may meet
  part.traits = call.traits;
  const InContext other_context(scope, other);
  return other.submit(
      part,
      [&]() -> int {
        auto* const synchronize = real_cuCtxSynchronize.get(scope);
        auto* const wait = real_cuStreamSynchronize.get(scope);
        if (synchronize == nullptr || wait == nullptr) return refusal.failed;
        if (const CUresult arrived = synchronize(); arrived != CUDA_SUCCESS) return refusal.failed;
        const InContext own_context(scope, own);
        const int status = launch();
        // A work's own error shows in the program's next call.
        if (status == 0) (void)wait(reinterpret_cast<CUstream>(call.stream));
        return status;
      },
      refusal);
}

}  // namespace pooch::interpose

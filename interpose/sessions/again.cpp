#include "interpose/sessions/again.h"

#include "interpose/hooks/captures.h"
#include "interpose/sessions/context.h"
#include "interpose/sessions/inside.h"
#include "interpose/sessions/served.h"

namespace pooch::interpose {

CUresult ask_again(runtime::Session& session, std::uint64_t bytes, FunctionRef<CUresult()> real) {
  // What the driver needs beyond the bytes themselves only the driver knows: each time some more is given.
  constexpr int most = 6;
  CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
  for (int i = 0; status == CUDA_ERROR_OUT_OF_MEMORY && i < most; ++i) {
    const bool given = session.relieve_device(bytes << i);
    if (!given && i > 0) break;
    status = real();
  }
  return status;
}

CUresult ask_again(const Scope& scope, FunctionRef<CUresult()> real) {
  // While a stream is being captured nothing may be waited for; nor where a call that is no op leads to this
  // one, since that may have the session's mutex.
  if (open_session() == nullptr || any_capture() || (!scope.outermost() && !inside_submit()))
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUcontext const context = current_context(scope);
  const auto device = context == nullptr ? std::nullopt : device_served_in(context);
  runtime::Session* const session = device ? session_on(*device) : nullptr;
  return session == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : ask_again(*session, 0, real);
}

}  // namespace pooch::interpose

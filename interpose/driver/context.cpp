// Calls that change the calling thread's context (sessions/context.h).
#include "interpose/sessions/context.h"

#include "interpose/hooks/libraries.h"
#include "interpose/sessions/again.h"

using namespace pooch::interpose;

// Noted ahead of the real call.
#define POOCH_LEAVES_CONTEXT(function, parameters, arguments) \
  POOCH_DRIVER_HOOK(function, parameters, arguments, forget_context(); return launch();)
#define POOCH_MAKES_CONTEXT(function, parameters, arguments) \
  POOCH_DRIVER_HOOK(function, parameters, arguments, note_context_created(); return launch();)

POOCH_LEAVES_CONTEXT(cuCtxSetCurrent, (CUcontext ctx), (ctx))
POOCH_LEAVES_CONTEXT(cuCtxPushCurrent, (CUcontext ctx), (ctx))
POOCH_LEAVES_CONTEXT(cuCtxPushCurrent_v2, (CUcontext ctx), (ctx))
POOCH_LEAVES_CONTEXT(cuCtxPopCurrent, (CUcontext * pctx), (pctx))
POOCH_LEAVES_CONTEXT(cuCtxPopCurrent_v2, (CUcontext * pctx), (pctx))

POOCH_MAKES_CONTEXT(cuCtxCreate, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev))
POOCH_MAKES_CONTEXT(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev))
POOCH_MAKES_CONTEXT(cuCtxCreate_v3,
                    (CUcontext * pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
                     CUdevice dev),
                    (pctx, paramsArray, numParams, flags, dev))
POOCH_MAKES_CONTEXT(cuCtxCreate_v4,
                    (CUcontext * pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev),
                    (pctx, ctxCreateParams, flags, dev))
POOCH_MAKES_CONTEXT(cuCtxFromGreenCtx, (CUcontext * pContext, CUgreenCtx hCtx), (pContext, hCtx))

// libcupti, opened at run time and never linked; once open it stays, as its own threads may run.
#pragma once

#include <cupti.h>

#include <string>

#include "core/result.h"

#define POOCH_CUPTI_FUNCTIONS(X)            \
  X(cuptiActivityDisable)                   \
  X(cuptiActivityEnable)                    \
  X(cuptiActivityFlushAll)                  \
  X(cuptiActivityGetNextRecord)             \
  X(cuptiActivityGetNumDroppedRecords)      \
  X(cuptiActivityPopExternalCorrelationId)  \
  X(cuptiActivityPushExternalCorrelationId) \
  X(cuptiActivityRegisterCallbacks)         \
  X(cuptiActivitySetAttribute)              \
  X(cuptiEnableDomain)                      \
  X(cuptiGetResultString)                   \
  X(cuptiGetStreamIdEx)                     \
  X(cuptiGetVersion)                        \
  X(cuptiSubscribe_v2)                      \
  X(cuptiUnsubscribe)

namespace pooch::cupti {

struct CuptiLibrary {
#define POOCH_MEMBER(function) decltype(&::function) function = nullptr;  // NOLINT: names take no parentheses
  POOCH_CUPTI_FUNCTIONS(POOCH_MEMBER)
#undef POOCH_MEMBER

  // "cuptiActivityEnable failed: CUPTI_ERROR_… (35)"
  Status check(CUptiResult result, const char* function) const;
};

// The one that the process has already loaded; else the one found by name; else the one in the folders of
// toolkits and Python wheels. Error: not_supported, what was looked for or what is wrong with it (only the
// layouts of CUDA 13 are known).
Result<const CuptiLibrary*> open_cupti();

}  // namespace pooch::cupti

// Memory that pooch has no part in: it migrates by itself, has no address, or is another process's or
// device's too. Calls about it pass through and are counted.
#pragma once

#include <atomic>

#include "core/summary.h"
#include "interpose/hooks/scope.h"

namespace pooch::interpose {

void count_ipc_handle();
// The program calls a function whose operands nobody follows: `why` says what may happen. Once.
void warn_unsupported(const Scope& scope, std::atomic<bool>& warned, const char* function, const char* why);
// What this process has asked for so far.
void describe_outside(Summary& summary);

}  // namespace pooch::interpose

// Errors of pooch's own, as the program hears of them.
#pragma once

#include <cuda.h>

#include "core/result.h"

namespace pooch::interpose {

CUresult to_cuda(const Error& error);
// Says why the program's call of `function` fails.
void report_refused(const char* function, const Error& why);

}  // namespace pooch::interpose

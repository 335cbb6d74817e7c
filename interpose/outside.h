// Memory that pooch has no part in: it migrates by itself, has no address, or is another process's or
// device's too. Calls about it pass through and are counted.
#pragma once

#include "core/summary.h"

namespace pooch::interpose {

void count_ipc_handle();
// What this process has asked for so far.
void describe_outside(Summary& summary);

}  // namespace pooch::interpose

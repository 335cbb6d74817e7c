// The software driver's table for profilers. libcuda is never linked.
#pragma once

#include "softgpu/activity.h"

namespace softgpu::cupti {

// Null where the libcuda that is found is not the software GPU's. The library is in use from now on until a
// handler of its own ends it as the process exits; who asks then gets a segmentation fault, as silicon's
// gives.
const ActivityTable* driver();
void end_with_process();

}  // namespace softgpu::cupti

// The software driver's table for profilers. libcuda is never linked.
#pragma once

#include "softgpu/activity.h"

namespace softgpu::cupti {

// Null where the libcuda that is found is not the software GPU's.
const ActivityTable* driver();

}  // namespace softgpu::cupti

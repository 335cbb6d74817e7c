// Activity in the layouts of CUDA 13.0's headers.
#pragma once

#include <cupti.h>

#include "softgpu/activity.h"

namespace softgpu::cupti {

CUpti_ActivityKernel10 kernel_record(CUpti_ActivityKind kind, const WorkActivity& work);
CUpti_ActivityMemcpy6 copy_record(const WorkActivity& work);
CUpti_ActivityMemset4 set_record(const WorkActivity& work);
CUpti_ActivityAPI call_record(const CallActivity& call, std::uint32_t thread);

// Bytes of a record of this kind; 0 where this library makes none.
std::size_t record_bytes(CUpti_ActivityKind kind);

}  // namespace softgpu::cupti

// What makes a backend descriptor complete, and the attributes that follow from the others.
#pragma once

#include <variant>

#include "softgpu/cudnn/backend/backend_convolution.h"
#include "softgpu/cudnn/backend/backend_fused.h"

namespace softgpu::cudnn {

// A graph as an engine does it.
struct BackendPlan {
  std::variant<ConvPlan, FusedPlan> graph;
};

// Checks that a descriptor is complete and consistent, and derives the attributes that can only be read.
cudnnStatus_t finalize(BackendDescriptor& descriptor);

}  // namespace softgpu::cudnn

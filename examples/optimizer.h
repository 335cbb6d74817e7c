// Stochastic gradient descent with momentum and weight decay.
#pragma once

#include <vector>

#include "context.h"
#include "layers.h"

namespace train {

struct SgdOptions {
  float learning_rate = 0.0F;
  float momentum = 0.9F;
  float weight_decay = 1e-4F;
};

class Sgd {
 public:
  // Makes one momentum tensor of zeros per parameter. `parameters` must outlive the optimiser.
  Sgd(Context& context, std::vector<Parameter*> parameters, const SgdOptions& options);

  // v = momentum v + g + decay w; w = w - rate v. Frees the gradients.
  void step();

 private:
  Context& context_;
  std::vector<Parameter*> parameters_;
  SgdOptions options_;
};

}  // namespace train

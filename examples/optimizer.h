// What a step makes of the gradients.
#pragma once

#include <cudnn.h>

#include <memory>
#include <vector>

#include "context.h"
#include "layers.h"

namespace train {

struct OptimizerOptions {
  bool adamw = false;
  float learning_rate = 0.0F;
  float momentum = 0.9F;  // AdamW: of the first moment
  float second_momentum = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 1e-4F;
};

// `parameters` must outlive the optimiser.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates the parameters and frees the gradients.
  virtual void step() = 0;
};

// v = momentum v + g + decay w; w = w - rate v.
class Sgd : public Optimizer {
 public:
  // Makes one momentum tensor of zeros per parameter.
  Sgd(Context& context, std::vector<Parameter*> parameters, const OptimizerOptions& options);
  void step() override;

 private:
  Context& context_;
  std::vector<Parameter*> parameters_;
  OptimizerOptions options_;
};

// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w = (1 - rate decay) w - rate m' / (sqrt(v') + epsilon),
// where m' = m / (1 - b1^t) and v' = v / (1 - b2^t) in step t (Loshchilov and Hutter, ICLR 2019). By calls of
// cuDNN and cuBLAS alone: a diagonal matrix that is solved for divides.
class AdamW : public Optimizer {
 public:
  // Makes two tensors of zeros per parameter.
  AdamW(Context& context, std::vector<Parameter*> parameters, const OptimizerOptions& options);
  ~AdamW() override;
  AdamW(const AdamW&) = delete;
  AdamW& operator=(const AdamW&) = delete;
  void step() override;

 private:
  void update(Parameter& parameter);

  Context& context_;
  std::vector<Parameter*> parameters_;
  OptimizerOptions options_;
  cudnnOpTensorDescriptor_t product_ = nullptr, root_ = nullptr;
  int steps_ = 0;
};

std::unique_ptr<Optimizer> make_optimizer(Context& context, const std::vector<Parameter*>& parameters,
                                          const OptimizerOptions& options);

}  // namespace train

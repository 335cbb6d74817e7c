// Softmax and cross entropy.
#pragma once

#include <cstddef>
#include <vector>

#include "context.h"

namespace train {

// Page-locked floats that results are copied into.
class HostResults {
 public:
  explicit HostResults(std::size_t count);
  ~HostResults();
  HostResults(const HostResults&) = delete;
  HostResults& operator=(const HostResults&) = delete;

  float* data() const { return data_; }

 private:
  float* data_ = nullptr;
};

class Loss {
 public:
  Loss(Context& context, int classes, int most_images);

  // Submits the probabilities, which go to the host, and (p - target) / (n passes), which is returned: the
  // mean over all images of `passes` equal batches.
  Tensor gradient(Tensor logits, const Tensor& targets, int passes);
  // Submits the probabilities alone.
  void probabilities(Tensor logits);
  // Submits a copy into the host's rows, which hold no number until it arrives.
  void fetch(const Tensor& rows);

  // The rest is for after the compute stream was waited for.
  // The mean over the first `images` rows; not a number where the device computes nothing.
  double value(const std::vector<int>& labels, int images) const;
  // One value per class.
  const float* row(int image) const { return results_.data() + std::size_t(image) * classes_; }

 private:
  Tensor softmax(Tensor logits);

  Context& context_;
  int classes_;
  HostResults results_;
};

}  // namespace train

// One network in training: its data, its parameters, its passes.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "context.h"
#include "data.h"
#include "log.h"
#include "loss.h"
#include "network.h"
#include "optimizer.h"
#include "options.h"
#include "stopwatch.h"

namespace train {

// The network that the options name. Throws Failure, Exit::bad_usage where it cannot take their images.
Network make_network(const Options& options, const NetworkOptions& choice);

// What the networks of one run share.
struct Run {
  const Options& options;
  Context& context;
  const Digits& digits;
  Stopwatch& stopwatch;
  TextLog& passes;
};

class Trainer {
 public:
  // Takes a network without parameters, and makes them.
  Trainer(const Run& run, const NetworkOptions& choice, Network network);

  const NetworkOptions& choice() const { return choice_; }
  int layers() const { return network_.count_of_layers(); }
  double last_loss() const { return last_loss_; }
  std::optional<double> last_validation_loss() const { return last_validation_loss_; }
  // Of the iteration that --inspect-gradient names.
  std::optional<double> gradient_norm() const { return gradient_norm_; }
  // Trained with so far, counted once per pass.
  std::int64_t images() const { return images_; }
  // Full batches of training in one pass over the data; 0: endless.
  int batches_per_epoch() const { return source_->batches_per_epoch(); }

  // Loads the first batch; `iterate` follows so many times.
  void start(int iterations);
  // All passes and the step, then waits for the device. Ends a lap of the stopwatch. Returns the mean loss.
  double iterate();
  bool validation_due() const;
  // Returns the mean loss. No gradients; batch norms use the running statistics.
  double validate();
  // Digits: the share of right answers among the test images. Empty where the device computes nothing.
  std::optional<double> test();
  // One line per parameter, with a hash of its bits.
  void write_weights(TextLog& log);

 private:
  Shape training_shape(std::int64_t pass) const;
  void load_next();
  double train_pass(bool step);
  bool inspects() const;
  void inspect(const Tensor& gradient);
  Tensor predict(Batch batch);
  void wait(const Batch& batch);
  void finish_pass(const char* word, Shape images, std::size_t algorithms_before);

  const Options& options_;
  const NetworkOptions& choice_;
  Context& context_;
  const Digits& digits_;
  Stopwatch& stopwatch_;
  TextLog& log_;
  Network network_;
  const Shape image_;  // of the first iteration
  std::unique_ptr<Source> source_, validation_source_;
  std::unique_ptr<Optimizer> optimizer_;
  Loader loader_;
  std::optional<Loader> validation_loader_;
  Loss loss_;
  Batch next_;
  std::int64_t passes_ = 0;  // that were asked for
  std::int64_t loaded_ = 0;  // passes that have their batch
  int iterations_ = 0;
  std::int64_t images_ = 0;
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();
  std::optional<double> last_validation_loss_, gradient_norm_;
};

}  // namespace train

#include "trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "check.h"

namespace train {
namespace {

// Whether every linear layer takes what an average over the whole map leaves, so that any size will do.
bool takes_any_size(const Network& network) {
  return std::all_of(network.nodes().begin(), network.nodes().end(), [&](const Network::Node& node) {
    return node.layer->kind() != std::string_view("linear") || network.shape(node.inputs[0]).positions() == 1;
  });
}

Network build(const Options& options, const NetworkOptions& choice, Form form) {
  if (choice.name == "digits") return digits_network(options.width, form.relu);
  return network_choice(choice.name).build(form);
}

Network prepared(Network network, Context& context, std::uint64_t seed) {
  network.prepare(context, seed);
  return network;
}

// The largest that a loader must have room for.
Shape largest_image(Shape image, const LoopOptions& loop) {
  for (const int size : loop.input_sizes) {
    image.h = std::max(image.h, size);
    image.w = std::max(image.w, size);
  }
  return image;
}

std::unique_ptr<Source> make_source(const Run& run, const NetworkOptions& choice, const Network& network) {
  if (choice.name == "digits") return digits_source(run.digits, choice.batch, run.options.seed);
  return synthetic_source(largest_image(network.image(), run.options.loop), network.classes(), choice.batch,
                          run.options.seed);
}

int validation_batch(const Options& options, const NetworkOptions& choice) {
  return options.loop.validation_batch > 0 ? options.loop.validation_batch : choice.batch;
}

// Other images than in training.
std::unique_ptr<Source> make_validation_source(const Run& run, const NetworkOptions& choice,
                                               const Network& network) {
  if (run.options.loop.validate_every == 0) return nullptr;
  const int batch = validation_batch(run.options, choice);
  if (choice.name == "digits") return digits_test_source(run.digits, batch);
  return synthetic_source(network.image(), network.classes(), batch, run.options.seed + 1);
}

}  // namespace

Network make_network(const Options& options, const NetworkOptions& choice) {
  try {
    Network network = build(options, choice, choice.form);
    for (const int size : options.loop.input_sizes) {
      if (takes_any_size(build(options, choice, {size, size, choice.form.frames}))) continue;
      throw std::invalid_argument("--input-sizes: the network must end in an average over the whole map");
    }
    return network;
  } catch (const std::invalid_argument& error) {
    throw Failure(Exit::bad_usage, fmt::format("{}: {}", choice.name, error.what()));
  }
}

Trainer::Trainer(const Run& run, const NetworkOptions& choice, Network network)
    : options_(run.options),
      choice_(choice),
      context_(run.context),
      digits_(run.digits),
      stopwatch_(run.stopwatch),
      log_(run.passes),
      network_(prepared(std::move(network), run.context, run.options.seed)),
      image_(network_.image()),
      source_(make_source(run, choice, network_)),
      validation_source_(make_validation_source(run, choice, network_)),
      optimizer_(make_optimizer(run.context, network_.parameters(), choice.optimizer)),
      loader_(run.context, *source_, choice.batch, run.options.loop.static_input),
      loss_(run.context, network_.classes(), std::max(choice.batch, validation_batch(run.options, choice))) {
  if (validation_source_ == nullptr) return;
  validation_loader_.emplace(context_, *validation_source_, validation_batch(options_, choice_),
                             options_.loop.static_input);
}

void Trainer::start(int iterations) {
  passes_ = std::int64_t{iterations} * options_.loop.accumulate;
  load_next();
}

double Trainer::iterate() {
  const int passes = options_.loop.accumulate;
  double sum = 0;
  for (int pass = 0; pass < passes; ++pass) sum += train_pass(pass + 1 == passes);
  ++iterations_;
  return last_loss_ = sum / passes;
}

bool Trainer::validation_due() const {
  const int every = options_.loop.validate_every;
  return every > 0 && iterations_ % every == 0;
}

double Trainer::validate() {
  Shape shape = image_;
  shape.n = validation_batch(options_, choice_);
  const int batches = options_.loop.validation_batches;
  double sum = 0;
  Batch next = validation_loader_->load(shape);
  for (int i = 0; i < batches; ++i) {
    const std::size_t algorithms = context_.found_algorithms.size();
    Batch batch = std::exchange(next, {});
    const std::vector<int>& labels = *batch.labels;
    loss_.probabilities(predict(std::move(batch)));
    if (i + 1 < batches) next = validation_loader_->load(shape);
    finish_pass("validate", shape, algorithms);
    sum += loss_.value(labels, shape.n);
  }
  last_validation_loss_ = sum / batches;
  return *last_validation_loss_;
}

std::optional<double> Trainer::test() {
  int right = 0;
  const int total = static_cast<int>(digits_.test_labels.size());
  for (int first = 0; first < total; first += choice_.batch) {
    const std::size_t algorithms = context_.found_algorithms.size();
    Shape shape = image_;
    shape.n = std::min(choice_.batch, total - first);
    const float* images = &digits_.test_images[first * image_.count()];
    const Tensor answers = network_.forward(context_.upload(images, shape), false);
    loss_.fetch(answers);
    finish_pass("test", shape, algorithms);
    for (int i = 0; i < shape.n; ++i) {
      const float* row = loss_.row(i);
      if (std::isnan(row[0])) return std::nullopt;
      if (std::max_element(row, row + network_.classes()) - row == digits_.test_labels[first + i]) ++right;
    }
  }
  return static_cast<double>(right) / total;
}

void Trainer::write_weights(TextLog& log) {
  for (const Parameter* parameter : network_.parameters()) {
    const std::vector<float> values = context_.download(parameter->value);
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    log.write(fmt::format("{}/{} {:016x}", choice_.label, parameter->name, hash));
  }
}

// The last pass of an epoch's last iteration has what is left.
Shape Trainer::training_shape(std::int64_t pass) const {
  const LoopOptions& loop = options_.loop;
  const bool ends_epoch =
      loop.last_batch > 0 && (pass + 1) % (std::int64_t{loop.epoch_length} * loop.accumulate) == 0;
  Shape shape = image_;
  shape.n = ends_epoch ? loop.last_batch : choice_.batch;
  if (!loop.input_sizes.empty()) {
    const auto iteration = static_cast<std::size_t>(pass / loop.accumulate);
    shape.h = shape.w = loop.input_sizes[iteration % loop.input_sizes.size()];
  }
  return shape;
}

void Trainer::load_next() {
  if (loaded_ == passes_) return;
  next_ = loader_.load(training_shape(loaded_));
  ++loaded_;
}

double Trainer::train_pass(bool step) {
  const std::size_t algorithms = context_.found_algorithms.size();
  Batch batch = std::exchange(next_, {});
  const Shape shape = batch.images.shape();
  const std::vector<int>& labels = *batch.labels;
  wait(batch);
  Tensor logits = network_.forward(std::move(batch.images), true);
  Tensor gradient = loss_.gradient(std::move(logits), batch.targets, options_.loop.accumulate);
  batch.targets.reset();
  if (step && inspects())
    network_.backward(std::move(gradient), [this](const Tensor& passing) { inspect(passing); });
  else
    network_.backward(std::move(gradient));
  if (step) {
    optimizer_->step();
    stopwatch_.lap();
  }
  // The next batch travels while this one computes.
  load_next();
  finish_pass(step ? "train" : "accumulate", shape, algorithms);
  images_ += shape.n;
  return loss_.value(labels, shape.n);
}

bool Trainer::inspects() const {
  const int first = options_.loop.inspect, every = options_.loop.inspect_every;
  return iterations_ == first ||
         (first >= 0 && every > 0 && iterations_ > first && (iterations_ - first) % every == 0);
}

void Trainer::inspect(const Tensor& gradient) {
  float norm = std::numeric_limits<float>::quiet_NaN();
  check(cublasSnrm2(context_.cublas(), static_cast<int>(gradient.shape().count()), gradient.data(), 1, &norm),
        "cublasSnrm2");
  gradient_norm_ = norm;
}

Tensor Trainer::predict(Batch batch) {
  wait(batch);
  return network_.forward(std::move(batch.images), false);
}

void Trainer::wait(const Batch& batch) {
  if (batch.ready == nullptr) return;
  check(cudaStreamWaitEvent(context_.compute(), batch.ready, 0), "cudaStreamWaitEvent");
}

void Trainer::finish_pass(const char* word, Shape images, std::size_t algorithms_before) {
  check(cudaStreamSynchronize(context_.compute()), "cudaStreamSynchronize");
  context_.memory.check_frees();
  std::string line = fmt::format("{} {}", word, images.n);
  if (options_.alternate) line += fmt::format(" network={}", choice_.label);
  if (!options_.loop.input_sizes.empty()) line += fmt::format(" size={}", images.h);
  if (options_.algorithms.trials) {
    line += fmt::format(" trials={}", context_.found_algorithms.size() - algorithms_before);
  }
  log_.write(line);
}

}  // namespace train

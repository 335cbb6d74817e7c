#include "trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "check.h"

namespace train {
namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// Page-locked floats that results are copied into.
class HostResults {
 public:
  explicit HostResults(std::size_t count) {
    check(cudaMallocHost(reinterpret_cast<void**>(&data_), count * sizeof(float)), "cudaMallocHost");
  }
  ~HostResults() { cudaFreeHost(data_); }
  HostResults(const HostResults&) = delete;
  HostResults& operator=(const HostResults&) = delete;

  float* data() { return data_; }

 private:
  float* data_ = nullptr;
};

// Text lines "iteration loss" with the exact bits, so that equal files mean equal losses.
class LossLog {
 public:
  explicit LossLog(const std::string& path) : path_(path) {
    if (path.empty()) return;
    file_.reset(std::fopen(path.c_str(), "w"));
    if (!file_) throw Failure(Exit::failed, fmt::format("{}: cannot be written", path));
  }
  void write(int iteration, double loss) {
    if (!file_) return;
    const int written = std::isnan(loss) ? std::fprintf(file_.get(), "%d nan\n", iteration)
                                         : std::fprintf(file_.get(), "%d %a\n", iteration, loss);
    if (written < 0 || std::fflush(file_.get()) != 0) {
      throw Failure(Exit::failed, fmt::format("{}: cannot be written", path_));
    }
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

class Trainer {
 public:
  Trainer(const Options& options, Context& context, Network& network, Source& source)
      : options_(options),
        context_(context),
        network_(network),
        sgd_(context, network.parameters(), options.sgd),
        loader_(context, source, options.batch),
        classes_(source.classes()),
        results_(std::size_t(options.batch) * classes_),
        log_(options.loss_log) {}
  ~Trainer() {
    for (const cudaEvent_t event : marks_) cudaEventDestroy(event);
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  Report run(int iterations) {
    Report report;
    mark();
    Batch next = loader_.load(0);
    for (int iteration = 0; iteration < iterations; ++iteration) {
      Batch batch = std::exchange(next, {});
      const std::vector<int>& labels = *batch.labels;
      submit(std::move(batch));
      mark();
      // The next batch travels while this one computes.
      if (iteration + 1 < iterations) next = loader_.load(iteration + 1);
      check(cudaStreamSynchronize(context_.compute()), "cudaStreamSynchronize");
      context_.memory.check_frees();
      report.last_loss = loss(labels);
      log_.write(iteration, report.last_loss);
      if (!options_.json) fmt::print("iteration {} loss {:.6f}\n", iteration, report.last_loss);
    }
    report.iterations = iterations;
    report.milliseconds = median_milliseconds();
    return report;
  }

  // The share of right answers, with the running statistics. Empty where the device computes nothing.
  std::optional<double> accuracy(const std::vector<float>& images, const std::vector<int>& labels,
                                 Shape image) {
    int right = 0;
    const int total = static_cast<int>(labels.size());
    for (int first = 0; first < total; first += options_.batch) {
      Shape shape = image;
      shape.n = std::min(options_.batch, total - first);
      Tensor answers = network_.forward(context_.upload(&images[first * image.count()], shape), false);
      const std::size_t count = answers.shape().count();
      fetch(answers, count);
      check(cudaStreamSynchronize(context_.compute()), "cudaStreamSynchronize");
      for (int i = 0; i < shape.n; ++i) {
        const float* row = results_.data() + std::size_t(i) * classes_;
        if (std::isnan(row[0])) return std::nullopt;
        if (std::max_element(row, row + classes_) - row == labels[first + i]) ++right;
      }
    }
    return static_cast<double>(right) / total;
  }

 private:
  // Submits one iteration; nothing here waits for the device.
  void submit(Batch batch) {
    check(cudaStreamWaitEvent(context_.compute(), batch.ready, 0), "cudaStreamWaitEvent");
    Tensor gradient = loss_gradient(network_.forward(std::move(batch.images), true), batch.targets);
    batch.targets.reset();
    network_.backward(std::move(gradient));
    sgd_.step();
  }

  // Softmax and cross entropy: the probabilities go to the host for the loss, and (p - target) / n goes back.
  Tensor loss_gradient(Tensor logits, const Tensor& targets) {
    const Shape shape = logits.shape();
    const auto desc = context_.descriptor(shape);
    const Tensor p = context_.memory.tensor(shape);
    check(cudnnSoftmaxForward(context_.cudnn(), CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, &one,
                              desc, logits.data(), &zero, desc, p.data()),
          "cudnnSoftmaxForward");
    logits.reset();
    fetch(p, shape.count());
    Tensor gradient = context_.memory.tensor(shape);
    const float scale = 1.0F / static_cast<float>(shape.n);
    const float minus = -scale;
    check(cublasSgeam(context_.cublas(), CUBLAS_OP_N, CUBLAS_OP_N, shape.c, shape.n, &scale, p.data(),
                      shape.c, &minus, targets.data(), shape.c, gradient.data(), shape.c),
          "cublasSgeam");
    return gradient;
  }

  // Submits a copy into the host results, which hold no number until it arrives.
  void fetch(const Tensor& values, std::size_t count) {
    std::fill_n(results_.data(), count, not_a_number);
    check(cudaMemcpyAsync(results_.data(), values.data(), count * sizeof(float), cudaMemcpyDeviceToHost,
                          context_.compute()),
          "cudaMemcpyAsync to the host");
  }

  double loss(const std::vector<int>& labels) {
    double sum = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      float p = results_.data()[i * classes_ + labels[i]];
      if (p < FLT_MIN) p = FLT_MIN;
      sum -= std::log(static_cast<double>(p));
    }
    // One spelling of what is not a number, whatever its sign.
    if (std::isnan(sum)) return std::numeric_limits<double>::quiet_NaN();
    return sum / static_cast<double>(labels.size());
  }

  void mark() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "cudaEventCreate");
    marks_.push_back(event);
    check(cudaEventRecord(event, context_.compute()), "cudaEventRecord");
  }

  double median_milliseconds() const {
    std::vector<float> times;
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, marks_[i - 1], marks_[i]), "cudaEventElapsedTime");
      times.push_back(milliseconds);
    }
    if (times.size() > 1) times.erase(times.begin());
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

  const Options& options_;
  Context& context_;
  Network& network_;
  Sgd sgd_;
  Loader loader_;
  int classes_;
  HostResults results_;
  LossLog log_;
  std::vector<cudaEvent_t> marks_;  // the start, then the end of every iteration
};

}  // namespace

Network make_network(const Options& options) {
  try {
    if (options.network == "digits") return digits_network(options.width);
    return network_choice(options.network).build(options.input);
  } catch (const std::invalid_argument& error) {
    throw Failure(Exit::bad_usage, fmt::format("{}: {}", options.network, error.what()));
  }
}

Report run_training(const Options& options) {
  const bool is_digits = options.network == "digits";
  const Digits digits = is_digits ? read_digits(options.data) : Digits{};
  Context context(options.allocation, options.algorithms);
  Network network = make_network(options);
  const auto source = is_digits
                          ? digits_source(digits, options.batch, options.seed)
                          : synthetic_source(network.image(), network.classes(), options.batch, options.seed);
  const int iterations =
      options.iterations > 0 ? options.iterations : options.epochs * source->batches_per_epoch();

  network.prepare(context, options.seed);
  Trainer trainer(options, context, network, *source);
  Report report = trainer.run(iterations);
  report.layers = network.count_of_layers();
  report.need_bytes = context.memory.peak_bytes();
  if (is_digits)
    report.test_accuracy = trainer.accuracy(digits.test_images, digits.test_labels, source->image());
  context.memory.check_frees();
  return report;
}

}  // namespace train

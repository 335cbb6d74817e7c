#include "loop.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "trainer.h"

namespace train {
namespace {

using Trainers = std::vector<std::unique_ptr<Trainer>>;

bool is_digits(const NetworkOptions& choice) {
  return choice.name == "digits";
}

int count_of_iterations(const Options& options, const Trainers& trainers) {
  if (options.iterations > 0) return options.iterations;
  const int each = options.epochs * trainers.front()->batches_per_epoch() / options.loop.accumulate;
  return std::max(each, 1) * static_cast<int>(trainers.size());
}

// Which losses a line is about: nothing, or the network's label where there are two.
std::string owner(const Options& options, const Trainer& trainer) {
  return options.alternate ? trainer.choice().label + " " : "";
}

void validate(const Options& options, Trainer& trainer, int iteration, TextLog& losses) {
  const double loss = trainer.validate();
  const std::string whose = owner(options, trainer);
  losses.write(fmt::format("{} {}validation {}", iteration, whose, exact(loss)));
  if (!options.json) fmt::print("iteration {} {}validation loss {:.6f}\n", iteration, whose, loss);
}

// Of the calling thread, whatever else the machine does.
double processor_microseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

void run_loop(const Options& options, const Trainers& trainers, int iterations, Stopwatch& stopwatch) {
  TextLog losses(options.loss_log), host(options.host_log);
  const int networks = options.alternate ? 2 : 1;
  stopwatch.start();
  for (int i = 0; i < networks; ++i) trainers[i]->start((iterations - i + networks - 1) / networks);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    Trainer& trainer = *trainers[iteration % networks];
    const double before = processor_microseconds();
    const double loss = trainer.iterate();
    host.write(fmt::format("{} {:.1f}", iteration, processor_microseconds() - before));
    const std::string whose = owner(options, trainer);
    losses.write(fmt::format("{} {}{}", iteration, whose, exact(loss)));
    if (!options.json) fmt::print("iteration {} {}loss {:.6f}\n", iteration, whose, loss);
    if (!trainer.validation_due()) continue;
    validate(options, trainer, iteration, losses);
    stopwatch.start();
  }
}

void write_weights(const Options& options, const Trainers& trainers) {
  if (options.weights_log.empty()) return;
  TextLog log(options.weights_log);
  for (const auto& trainer : trainers) {
    trainer->write_weights(log);
    if (const auto norm = trainer->gradient_norm())
      log.write(owner(options, *trainer) + "gradient norm " + exact(*norm));
  }
}

NetworkReport report_of(Trainer& trainer) {
  NetworkReport report;
  report.layers = trainer.layers();
  report.last_loss = trainer.last_loss();
  report.validation_loss = trainer.last_validation_loss();
  if (is_digits(trainer.choice())) report.test_accuracy = trainer.test();
  return report;
}

}  // namespace

Report run_training(const Options& options) {
  std::vector<const NetworkOptions*> choices{&options.network};
  if (options.alternate) choices.push_back(&*options.alternate);
  std::vector<Network> networks;
  bool any_digits = false;
  for (const NetworkOptions* choice : choices) {
    networks.push_back(make_network(options, *choice));
    any_digits |= is_digits(*choice);
  }
  const Digits digits = any_digits ? read_digits(options.data) : Digits{};
  TextLog passes(options.loop.log);

  Context context(options.allocation, options.algorithms);
  Stopwatch stopwatch(context.compute());
  Trainers trainers;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    trainers.push_back(std::make_unique<Trainer>(Run{options, context, digits, stopwatch, passes},
                                                 *choices[i], std::move(networks[i])));
  }
  Report report;
  report.iterations = count_of_iterations(options, trainers);
  run_loop(options, trainers, report.iterations, stopwatch);
  report.milliseconds = stopwatch.median_milliseconds();
  report.need_bytes = context.memory.peak_bytes();
  write_weights(options, trainers);
  double images = 0;
  for (const auto& trainer : trainers) {
    images += static_cast<double>(trainer->images());
    report.networks.push_back(report_of(*trainer));
  }
  report.images_per_iteration = images / report.iterations;
  return report;
}

}  // namespace train

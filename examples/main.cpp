#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "check.h"
#include "describe.h"
#include "options.h"
#include "trainer.h"

namespace {

void print_json(const train::Options& options, const train::Report& report) {
  nlohmann::ordered_json json{{"network", options.network},
                              {"layers", report.layers},
                              {"batch", options.batch},
                              {"iterations", report.iterations},
                              {"loss", report.last_loss},  // null where it is not a number
                              {"test_accuracy", nullptr},
                              {"need_bytes", report.need_bytes},
                              {"ms_per_iteration", report.milliseconds},
                              {"images_per_s", options.batch * 1000.0 / report.milliseconds}};
  if (report.test_accuracy) json["test_accuracy"] = *report.test_accuracy;
  fmt::print("{}\n", json.dump());
}

void print_text(const train::Options& options, const train::Report& report) {
  if (report.test_accuracy) fmt::print("test accuracy {:.2f} %\n", 100 * *report.test_accuracy);
  fmt::print("need {}, {:.2f} ms per iteration, {:.1f} images/s\n", train::readable_bytes(report.need_bytes),
             report.milliseconds, options.batch * 1000.0 / report.milliseconds);
}

}  // namespace

int main(int argc, char** argv) {
  train::Options options;
  if (const auto code = train::parse_options(argc, argv, options)) return *code;
  try {
    if (options.describe) {
      fmt::print("{}\n",
                 train::describe(options.network, train::make_network(options), options.batch).dump());
      return static_cast<int>(train::Exit::ok);
    }
    const train::Report report = train::run_training(options);
    options.json ? print_json(options, report) : print_text(options, report);
    return static_cast<int>(train::Exit::ok);
  } catch (const train::Failure& failure) {
    std::fprintf(stderr, "train: %s\n", failure.what());
    return static_cast<int>(failure.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return static_cast<int>(train::Exit::failed);
  }
}

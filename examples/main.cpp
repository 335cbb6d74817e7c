#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "check.h"
#include "describe.h"
#include "loop.h"
#include "options.h"
#include "trainer.h"

namespace {

void add_optional(nlohmann::ordered_json& json, const char* key, const std::optional<double>& value) {
  if (value) json[key] = *value;
}

double images_per_second(const train::Report& report) {
  return report.images_per_iteration * 1000.0 / report.milliseconds;
}

void print_json(const train::Options& options, const train::Report& report) {
  const train::NetworkReport& network = report.networks[0];
  nlohmann::ordered_json json{{"network", options.network.name},
                              {"layers", network.layers},
                              {"batch", options.network.batch},
                              {"iterations", report.iterations},
                              {"loss", network.last_loss},  // null where it is not a number
                              {"test_accuracy", nullptr},
                              {"need_bytes", report.need_bytes},
                              {"ms_per_iteration", report.milliseconds},
                              {"images_per_s", images_per_second(report)}};
  add_optional(json, "test_accuracy", network.test_accuracy);
  add_optional(json, "validation_loss", network.validation_loss);
  if (options.alternate) {
    const train::NetworkReport& second = report.networks[1];
    json["alternate"] = {{"network", options.alternate->name},
                         {"layers", second.layers},
                         {"batch", options.alternate->batch},
                         {"loss", second.last_loss}};
    add_optional(json["alternate"], "test_accuracy", second.test_accuracy);
    add_optional(json["alternate"], "validation_loss", second.validation_loss);
  }
  fmt::print("{}\n", json.dump());
}

void print_text(const train::Report& report) {
  for (const train::NetworkReport& network : report.networks) {
    if (network.test_accuracy) fmt::print("test accuracy {:.2f} %\n", 100 * *network.test_accuracy);
  }
  fmt::print("need {}, {:.2f} ms per iteration, {:.1f} images/s\n", train::readable_bytes(report.need_bytes),
             report.milliseconds, images_per_second(report));
}

nlohmann::ordered_json description(const train::Options& options, const train::NetworkOptions& choice) {
  return train::describe(choice.name, train::make_network(options, choice), choice.batch);
}

void print_description(const train::Options& options) {
  nlohmann::ordered_json json = description(options, options.network);
  if (options.alternate) json["alternate"] = description(options, *options.alternate);
  fmt::print("{}\n", json.dump());
}

}  // namespace

int main(int argc, char** argv) {
  train::Options options;
  if (const auto code = train::parse_options(argc, argv, options)) return *code;
  try {
    if (options.describe) {
      print_description(options);
      return static_cast<int>(train::Exit::ok);
    }
    const train::Report report = train::run_training(options);
    options.json ? print_json(options, report) : print_text(report);
    return static_cast<int>(train::Exit::ok);
  } catch (const train::Failure& failure) {
    std::fprintf(stderr, "train: %s\n", failure.what());
    return static_cast<int>(failure.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return static_cast<int>(train::Exit::failed);
  }
}

#include "options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>

#include "check.h"

namespace train {
namespace {

const std::map<std::string, cudnnConvolutionFwdAlgo_t> forward_algorithms{
    {"implicit_gemm", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM},
    {"implicit_precomp_gemm", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM},
    {"gemm", CUDNN_CONVOLUTION_FWD_ALGO_GEMM},
};

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const NetworkChoice& choice : network_choices()) names.push_back(choice.name);
  return names;
}

// ../../examples/data serves a build folder inside the source tree.
std::string default_data_folder() {
  std::error_code error;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& folder : {here / "data", here / "../../examples/data"}) {
    if (std::filesystem::exists(folder / "digits.csv.gz", error)) return folder.string();
  }
  return (here / "data").string();
}

void fill_defaults(Options& options) {
  const bool digits = options.network == "digits";
  const NetworkChoice& choice = network_choice(options.network);
  if (options.batch == 0) options.batch = choice.batch;
  if (options.input.width == 0) options.input.width = options.input.height;
  if (options.input.height == 0) options.input.height = choice.input.height;
  if (options.input.width == 0) options.input.width = choice.input.width;
  if (options.input.frames == 0) options.input.frames = choice.input.frames;
  if (options.iterations == 0 && options.epochs == 0)
    (digits ? options.epochs : options.iterations) = digits ? 15 : 10;
  if (options.sgd.learning_rate == 0) options.sgd.learning_rate = digits ? 0.2F : 0.01F;
  if (options.data.empty()) options.data = default_data_folder();
}

}  // namespace

std::optional<int> parse_options(int argc, char** argv, Options& options) {
  CLI::App app{"Trains a convolutional network with cuDNN and cuBLAS."};
  std::string algorithm = "implicit_precomp_gemm";
  std::string allocation = "async";
  const auto positive = CLI::Range(1, 1 << 30);
  app.add_option("--network", options.network, "which network")
      ->check(CLI::IsMember(network_names()))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "images per iteration (the network's own)")->check(positive);
  app.add_option("--input-size", options.input.height,
                 "not digits: height and width of the images (224, clips: 112)")
      ->check(CLI::Range(32, 4096));
  app.add_option("--input-width", options.input.width, "not digits: width, where it is not the height")
      ->check(CLI::Range(32, 4096));
  app.add_option("--frames", options.input.frames, "resnext101-3d: length of a clip (16)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--width", options.width, "digits: channels of the first stage")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  auto* iterations = app.add_option("--iterations", options.iterations, "iterations (10; digits: 15 epochs)")
                         ->check(positive);
  app.add_option("--epochs", options.epochs, "digits: passes over the data (15)")
      ->check(positive)
      ->excludes(iterations);
  app.add_option("--seed", options.seed, "of weights and data")->capture_default_str();
  app.add_option("--algo", algorithm, "forward convolution: implicit_gemm, implicit_precomp_gemm or gemm")
      ->check(CLI::IsMember(forward_algorithms))
      ->capture_default_str();
  app.add_option("--alloc", allocation, "async (cudaMallocAsync) or sync (cudaMalloc)")
      ->check(CLI::IsMember({"async", "sync"}))
      ->capture_default_str();
  app.add_option("--lr", options.sgd.learning_rate, "learning rate (0.01, digits: 0.2)")
      ->check(CLI::Range(1e-9, 1000.0));
  app.add_option("--loss-log", options.loss_log, "file for the losses, as exact hexadecimal numbers");
  app.add_option("--data", options.data, "folder of digits.csv.gz");
  app.add_flag("--json", options.json, "one JSON object on stdout at the end");
  app.add_flag("--describe", options.describe, "print the network's layers, maps and edges as JSON, and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "train: error: %s\n", error.what());
    return static_cast<int>(Exit::bad_usage);
  }
  if (options.network != "digits" && options.epochs > 0) {
    std::fprintf(stderr, "train: error: --epochs: only the digits have an end; use --iterations\n");
    return static_cast<int>(Exit::bad_usage);
  }
  options.algorithms.forward = forward_algorithms.at(algorithm);
  options.allocation = allocation == "async" ? Memory::Kind::stream_ordered : Memory::Kind::plain;
  fill_defaults(options);
  return std::nullopt;
}

}  // namespace train

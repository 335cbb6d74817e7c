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
  if (options.batch == 0) options.batch = digits ? 512 : 64;
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
  app.add_option("--network", options.network, "digits or resnet50")
      ->check(CLI::IsMember({"digits", "resnet50"}))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "images per iteration (digits: 512, resnet50: 64)")
      ->check(positive);
  app.add_option("--input-size", options.input_size, "resnet50: height and width of the images")
      ->check(CLI::Range(32, 4096))
      ->capture_default_str();
  app.add_option("--width", options.width, "digits: channels of the first stage")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  auto* iterations =
      app.add_option("--iterations", options.iterations, "iterations (resnet50: 10)")->check(positive);
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
  app.add_option("--lr", options.sgd.learning_rate, "learning rate (digits: 0.2, resnet50: 0.01)")
      ->check(CLI::Range(1e-9, 1000.0));
  app.add_option("--loss-log", options.loss_log, "file for the losses, as exact hexadecimal numbers");
  app.add_option("--data", options.data, "folder of digits.csv.gz");
  app.add_flag("--json", options.json, "one JSON object on stdout at the end");
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

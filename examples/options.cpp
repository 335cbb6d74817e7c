#include "options.h"

#include <fmt/core.h>

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

// Built, installed, or in a build folder inside the source tree.
std::string default_data_folder() {
  std::error_code error;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& folder : {here / "data", here / "../share/pooch", here / "../../examples/data"}) {
    if (std::filesystem::exists(folder / "digits.csv.gz", error)) return folder.string();
  }
  return (here / "data").string();
}

void fill_defaults(NetworkOptions& network) {
  const NetworkChoice& choice = network_choice(network.name);
  if (network.batch == 0) network.batch = choice.batch;
  if (network.form.width == 0) network.form.width = network.form.height;
  if (network.form.height == 0) network.form.height = choice.form.height;
  if (network.form.width == 0) network.form.width = choice.form.width;
  if (network.form.frames == 0) network.form.frames = choice.form.frames;
  float& rate = network.optimizer.learning_rate;
  if (rate == 0) rate = network.optimizer.adamw ? 0.001F : network.name == "digits" ? 0.2F : 0.01F;
}

void fill_defaults(Options& options, const std::string& alternate) {
  NetworkOptions& network = options.network;
  network.label = network.name;
  if (!options.loop.input_sizes.empty()) network.form.height = options.loop.input_sizes.front();
  if (!alternate.empty()) {
    options.alternate = network;
    options.alternate->name = alternate;
    options.alternate->label = alternate == network.name ? alternate + "-2" : alternate;
    fill_defaults(*options.alternate);
  }
  fill_defaults(network);
  const bool digits = network.name == "digits";
  if (options.iterations == 0 && options.epochs == 0)
    (digits ? options.epochs : options.iterations) = digits ? 15 : 10;
  if (options.data.empty()) options.data = default_data_folder();
}

const CLI::Range positive(1, 1 << 30);
const CLI::Range image_size(32, 4096);

void add_network_options(CLI::App& app, Options& options) {
  NetworkOptions& network = options.network;
  app.add_option("--network", network.name, "which network")
      ->check(CLI::IsMember(network_names()))
      ->capture_default_str();
  app.add_option("--batch", network.batch, "images per pass (the network's own)")->check(positive);
  app.add_option("--input-size", network.form.height,
                 "not digits: height and width of the images (224, clips: 112)")
      ->check(image_size);
  app.add_option("--input-width", network.form.width, "not digits: width, where it is not the height")
      ->check(image_size);
  app.add_option("--frames", network.form.frames, "resnext101-3d: length of a clip (16)")
      ->check(CLI::Range(1, 4096));
  app.add_flag_callback(
      "--separate-relu", [&network] { network.form.relu = Relu::separate; },
      "ReLUs write a map of their own and keep their input as well (in place)");
  app.add_option("--width", options.width, "digits: channels of the first stage")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  auto* iterations = app.add_option("--iterations", options.iterations, "iterations (10; digits: 15 epochs)")
                         ->check(positive);
  app.add_option("--epochs", options.epochs, "digits: passes over the data (15)")
      ->check(positive)
      ->excludes(iterations);
  app.add_option("--seed", options.seed, "of weights and data")->capture_default_str();
  app.add_flag("--adamw", network.optimizer.adamw, "AdamW in place of SGD with momentum");
  app.add_option("--lr", network.optimizer.learning_rate, "learning rate (0.01, digits: 0.2; AdamW: 0.001)")
      ->check(CLI::Range(1e-9, 1000.0));
}

void add_loop_options(CLI::App& app, LoopOptions& loop, std::string& alternate) {
  app.add_option("--accumulate", loop.accumulate, "passes whose gradients are added up for one step")
      ->check(positive)
      ->capture_default_str();
  auto* every = app.add_option("--validate-every", loop.validate_every,
                               "a validation after this many iterations (never)")
                    ->check(positive);
  app.add_option("--validation-batches", loop.validation_batches, "batches in a validation")
      ->check(positive)
      ->needs(every)
      ->capture_default_str();
  app.add_option("--validation-batch", loop.validation_batch,
                 "images in a validation's batches (as many as in training)")
      ->check(positive)
      ->needs(every);
  auto* length = app.add_option("--epoch-length", loop.epoch_length,
                                "with --last-batch: the last of so many iterations has the smaller batch")
                     ->check(positive);
  auto* last =
      app.add_option("--last-batch", loop.last_batch, "images in the last batch of an epoch (as many)")
          ->check(positive)
          ->needs(length);
  length->needs(last);
  app.add_option("--alternate", alternate,
                 "a second network, trained in turn with the first; the other options hold for both, and all "
                 "but --iterations count the iterations of each")
      ->check(CLI::IsMember(network_names()));
  app.add_option("--input-sizes", loop.input_sizes,
                 "heights and widths H1,H2,... of the images, iteration by iteration (always the same)")
      ->delimiter(',')
      ->check(image_size)
      ->excludes(app.get_option("--input-size"))
      ->excludes(app.get_option("--input-width"));
  app.add_option("--inspect-gradient", loop.inspect,
                 "iteration (from 0) in the middle of whose backward pass the norm of the gradient is taken: "
                 "an op that no other iteration has")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--inspect-every", loop.inspect_every, "... and again each time after so many iterations")
      ->check(CLI::Range(1, 1 << 30))
      ->needs(app.get_option("--inspect-gradient"));
  app.add_flag("--static-input", loop.static_input, "one batch, sent to the device once, for all iterations");
  app.add_option(
      "--iteration-log", loop.log,
      "file for one line per pass: train (with a step), accumulate (without), validate or test, and "
      "how many images");
}

// One line on what the options cannot mean together; empty if there is nothing.
std::string contradiction(const Options& options) {
  const LoopOptions& loop = options.loop;
  if (options.network.name != "digits" && options.epochs > 0) {
    return "--epochs: only the digits have an end; use --iterations";
  }
  for (const NetworkOptions* network :
       {&options.network, options.alternate ? &*options.alternate : nullptr}) {
    if (network == nullptr) continue;
    if (loop.last_batch > network->batch) {
      return fmt::format("--last-batch {}: larger than the batch of {} ({})", loop.last_batch, network->label,
                         network->batch);
    }
    if (!loop.input_sizes.empty() && network->name == "digits") {
      return "--input-sizes: the digits have one size";
    }
  }
  return {};
}

}  // namespace

std::optional<int> parse_options(int argc, char** argv, Options& options) {
  CLI::App app{"Trains a convolutional network with cuDNN and cuBLAS."};
  std::string algorithm = "implicit_precomp_gemm";
  std::string allocation = "async";
  std::string alternate;
  add_network_options(app, options);
  auto* algo =
      app.add_option("--algo", algorithm, "forward convolution: implicit_gemm, implicit_precomp_gemm or gemm")
          ->check(CLI::IsMember(forward_algorithms))
          ->capture_default_str();
  app.add_flag("--benchmark-algorithms", options.algorithms.trials,
               "at each first use of a shape, execute all convolution algorithms and take the fastest")
      ->excludes(algo);
  app.add_option("--alloc", allocation, "async (cudaMallocAsync) or sync (cudaMalloc)")
      ->check(CLI::IsMember({"async", "sync"}))
      ->capture_default_str();
  add_loop_options(app, options.loop, alternate);
  app.add_option("--loss-log", options.loss_log, "file for the losses, as exact hexadecimal numbers");
  app.add_option("--weights-log", options.weights_log,
                 "file for one line per parameter at the end: its name and a hash of its exact bits");
  app.add_option("--host-log", options.host_log,
                 "file for the processor time of every iteration on the host, in microseconds");
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
  options.algorithms.forward = forward_algorithms.at(algorithm);
  options.allocation = allocation == "async" ? Memory::Kind::stream_ordered : Memory::Kind::plain;
  fill_defaults(options, alternate);
  if (const std::string error = contradiction(options); !error.empty()) {
    std::fprintf(stderr, "train: error: %s\n", error.c_str());
    return static_cast<int>(Exit::bad_usage);
  }
  return std::nullopt;
}

}  // namespace train

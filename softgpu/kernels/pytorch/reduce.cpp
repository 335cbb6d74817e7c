// reduce_kernel<threads, results of a thread, ReduceOp>(ReduceOp): native/cuda/Reduce.cuh.
#include <string>

#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {
namespace {

// ReduceConfig
struct Config {
  std::int32_t element_bytes, inputs, outputs, step_input, step_output, blocks_per_output;
  std::int32_t input_factors[3];  // of threads in x, in y and of blocks; 0: they do not share an output
  std::int32_t output_factors[2];
  std::int32_t block_width, block_height, threads;
  bool vectorized;
  std::int32_t outputs_per_thread;
};
static_assert(sizeof(Config) == 64);

// ReduceOp<type, …, uint32_t, type of the result, …>, of types that are summed up in float
struct Reduction {
  float factor;  // of MeanOps; those for sums and norms have no members
  float identity;
  Config config;
  Offsets<1> input;
  Offsets<2> output;  // of the result, of the input
  std::uint64_t source, results[2], partial_sums, between_blocks, semaphores;
  std::int64_t first_index;
  bool accumulate, final_output;
  std::int32_t result_count;
};

bool touch_input(const Reduction& op, std::uint32_t bytes, Footprint& out) {
  auto dimensions = op.input.of(0);
  const auto outer = op.output.of(1);
  dimensions.insert(dimensions.end(), outer.begin(), outer.end());
  return touch_strided(out, op.source, dimensions, bytes, TouchKind::read);
}

void hash_config(Hash& hash, const Config& config) {
  for (const std::int32_t each :
       {config.element_bytes, config.inputs, config.outputs, config.step_input, config.step_output,
        config.blocks_per_output, config.input_factors[0], config.input_factors[1], config.input_factors[2],
        config.output_factors[0], config.output_factors[1], config.block_width, config.block_height,
        config.threads, std::int32_t{config.vectorized}, config.outputs_per_thread})
    hash.add(static_cast<std::uint64_t>(each));
}

// Where blocks share an output each leaves its own part, and the last of them adds them up.
void touch_between_blocks(const KernelLaunch& launch, const Reduction& op, Footprint& out) {
  if (op.config.input_factors[2] == 0) return;
  std::uint64_t parts = std::uint64_t{launch.grid[0]} * launch.grid[1];
  if (op.config.input_factors[0] == 0)
    parts *= launch.block[0] * static_cast<std::uint64_t>(op.config.outputs_per_thread);
  touch(out, op.between_blocks, parts * static_cast<std::uint64_t>(op.config.element_bytes),
        TouchKind::write);
  touch(out, op.semaphores, 4 * std::uint64_t{launch.grid[0]}, TouchKind::update);
}

}  // namespace

bool reduce(const KernelLaunch& launch, Footprint& out) {
  const auto arguments = template_arguments(launch.name);
  if (arguments.size() != 3 || template_name(arguments[2]) != "at::native::ReduceOp") return false;
  const auto of_op = template_arguments(arguments[2]);
  if (of_op.size() != 6 || of_op[2] != "unsigned int" || bytes_to_compute(of_op[0]) != sizeof(float) ||
      bytes_to_compute(of_op[3]) != sizeof(float))
    return false;
  const std::string in(of_op[0]), result(of_op[3]);
  const bool mean = of_op[1] == "at::native::MeanOps<" + in + ", float, float, " + result + ">";
  const std::string sum = "at::native::func_wrapper_t<" + result + ", at::native::sum_functor<" + in +
                          ", float, " + result + ">::";
  const std::string norm = "at::native::NormTwoOps<" + in + ", float, " + result + ", ";
  if (!mean && !of_op[1].starts_with(sum) && !of_op[1].starts_with(norm)) return false;
  if (!sizes_are(launch, {sizeof(Reduction)})) return false;

  const auto op = parameter<Reduction>(launch, 0);
  const auto inputs = static_cast<std::uint64_t>(op.config.inputs);
  const auto outputs = static_cast<std::uint64_t>(op.config.outputs);
  if (!op.input.well() || !op.output.well() || op.input.elements() != inputs ||
      op.output.elements() != outputs || op.partial_sums != 0 || op.result_count != 1 || !op.final_output)
    return false;
  if (!touch_input(op, bytes_of(in), out)) return false;
  if (!touch_strided(out, op.results[0], op.output.of(0), bytes_of(result),
                     op.accumulate ? TouchKind::read_write : TouchKind::write))
    return false;
  touch_between_blocks(launch, op, out);
  Hash hash(op.accumulate);
  if (mean) hash.add_bytes(&op.factor, sizeof op.factor);
  hash.add_bytes(&op.identity, sizeof op.identity);
  hash_config(hash, op.config);
  op.input.add_to(hash);
  op.output.add_to(hash);
  out.scalars = hash.value();
  return true;
}

}  // namespace softgpu::pytorch

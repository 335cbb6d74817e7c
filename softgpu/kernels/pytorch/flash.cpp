// Attention that keeps no matrix of scores, in half precision: pytorch_flash::flash_fwd_kernel and
// flash_bwd_… of third_party/flash-attention/csrc/flash_attn/src/flash.h and flash_bwd_preprocess_kernel.h.
#include <cstddef>

#include "softgpu/kernels/pytorch/attention.h"

namespace softgpu::pytorch {
namespace {

// Where Flash_fwd_params begin, and their size.
struct Forward {
  std::uint64_t query, key, value;
  std::int64_t query_batch, key_batch, value_batch, query_row, key_row, value_row, query_head, key_head,
      value_head;
  std::int32_t heads, key_heads, heads_of_keys;
  std::uint64_t result, accumulated;
  std::int64_t result_batch, result_row, result_head;
  std::uint64_t scores, log_sums, accumulated_log_sums;
  std::int32_t batches, queries, keys, new_keys, width, queries_rounded, keys_rounded, width_rounded,
      rotary_width, total_queries;
  float scale, scale_log2;
  std::uint64_t query_starts, key_starts, left_padding, key_lengths;
};
static_assert(sizeof(Forward) == 256 && offsetof(Forward, query_starts) == 224);
constexpr std::uint32_t forward_bytes = 472;

// Behind those in Flash_bwd_params.
struct Gradients {
  std::uint64_t gradient, query_gradient, key_gradient, value_gradient;
  std::uint64_t query_sums, key_sums, value_sums;
  std::int64_t gradient_batch, gradient_row, gradient_head;
  std::int64_t query_batch, key_batch, value_batch, query_row, key_row, value_row, query_head, key_head,
      value_head;
  std::uint64_t products;  // of the result and its gradient, a sum for each row
  bool deterministic;
  std::int64_t split;
};
static_assert(sizeof(Gradients) == 176);
constexpr std::uint32_t backward_bytes = forward_bytes + sizeof(Gradients);

constexpr std::uint32_t element = 2, sum = sizeof(float);  // bytes
constexpr std::uint64_t row_unit = 128;                    // of queries_rounded

// Flash_fwd_kernel_traits<width, queries, keys, warps, …, type, …>: of the tile that a block works on.
struct Traits {
  std::uint32_t width, queries;
};

std::optional<Traits> traits_of(std::string_view text, std::string_view name, std::size_t type) {
  const auto given = template_arguments(text);
  if (template_name(text) != name || given.size() <= type ||
      (given[type] != "cutlass::bfloat16_t" && given[type] != "cutlass::half_t"))
    return std::nullopt;
  const Traits traits{number(given[0]).value_or(0), number(given[1]).value_or(0)};
  return traits.width == 0 || traits.queries == 0 ? std::nullopt : std::optional(traits);
}
std::optional<Traits> backward_traits(std::string_view text) {
  return traits_of(text, "Flash_bwd_kernel_traits", 9);
}

std::uint64_t size(std::int32_t value) {
  return static_cast<std::uint64_t>(value);
}

// All sequences are of one length, no heads share keys, and the launch is one of blocks of queries.
struct Problem {
  Forward p;
  Inputs in;
  Shape queries, keys;
  std::uint64_t tile_rows;  // of whole tiles
};

std::optional<Problem> problem_of(const KernelLaunch& launch, const Traits& traits, std::uint32_t bytes) {
  if (launch.param_count == 0 || launch.param_sizes[0] != bytes) return std::nullopt;
  const auto p = parameter<Forward>(launch, 0);
  if (p.batches <= 0 || p.heads <= 0 || p.heads != p.key_heads || p.heads_of_keys != 1 || p.queries <= 0 ||
      p.keys <= 0 || p.width <= 0 || p.width_rounded != static_cast<std::int32_t>(traits.width) ||
      p.width > p.width_rounded || size(p.queries_rounded) != rounded_up(size(p.queries), row_unit) ||
      p.query_starts != 0 || p.key_starts != 0 || p.left_padding != 0 || p.key_lengths != 0 ||
      p.scores != 0 || launch.grid[1] != size(p.batches) || launch.grid[2] != size(p.heads))
    return std::nullopt;
  const Shape queries{size(p.batches), size(p.heads), size(p.queries), size(p.width)};
  const Shape keys{size(p.batches), size(p.heads), size(p.keys), size(p.width)};
  return Problem{p,
                 {{p.query, p.key, p.value},
                  {queries, keys, keys},
                  {{p.query_batch, p.query_row, p.query_head},
                   {p.key_batch, p.key_row, p.key_head},
                   {p.value_batch, p.value_row, p.value_head}}},
                 queries,
                 keys,
                 rounded_up(size(p.queries), traits.queries)};
}

bool is_launched_by_queries(const KernelLaunch& launch, const Problem& problem, const Traits& traits) {
  return launch.grid[0] * std::uint64_t{traits.queries} == problem.tile_rows;
}

bool all_false(const std::vector<std::string_view>& given, std::initializer_list<std::size_t> places) {
  for (const std::size_t place : places)
    if (given[place] != "false") return false;
  return true;
}

Gradients gradients_of(const KernelLaunch& launch) {
  Gradients g;
  std::memcpy(&g, static_cast<const std::byte*>(launch.params[0]) + forward_bytes, sizeof g);
  return g;
}

struct Backward {
  Problem problem;
  Gradients g;
  Hash hash;

  bool touch(Footprint& out, std::uint64_t address, const Shape& shape, const Strides& strides,
             std::uint32_t bytes, TouchKind kind) {
    hash_tensor(hash, shape, strides);
    return touch_tensor(out, address, shape, strides, bytes, kind);
  }
  bool touch_result_gradient(Footprint& out) {
    return touch(out, g.gradient, problem.queries, {g.gradient_batch, g.gradient_row, g.gradient_head},
                 element, TouchKind::read);
  }
  // [sequences, heads, rows]
  bool touch_rows(Footprint& out, std::uint64_t address, std::uint64_t rows, std::int64_t apart,
                  TouchKind kind) {
    const Shape shape{problem.queries.batches, problem.queries.heads, rows, 1};
    return touch(out, address, shape, {apart * problem.p.heads, 1, apart}, sum, kind);
  }
  bool touch_products(Footprint& out, TouchKind kind) {
    return touch_rows(out, g.products, problem.tile_rows, problem.p.queries_rounded, kind);
  }
  // [sequences, rows, heads, width], of whole tiles
  bool touch_query_sums(Footprint& out, TouchKind kind) {
    const std::int64_t width = problem.p.width_rounded, row = width * problem.p.heads;
    const Shape shape{problem.queries.batches, problem.queries.heads, problem.tile_rows,
                      size(problem.p.width_rounded)};
    return touch(out, g.query_sums, shape, {row * problem.p.queries_rounded, row, width}, sum, kind);
  }
};

std::optional<Backward> backward_of(const KernelLaunch& launch, const Traits& traits) {
  const auto problem = problem_of(launch, traits, backward_bytes);
  if (!problem) return std::nullopt;
  const Gradients g = gradients_of(launch);
  if (g.deterministic || g.query_sums == 0) return std::nullopt;
  Hash hash;
  hash.add_bytes(&problem->p.scale, sizeof problem->p.scale);
  return Backward{*problem, g, hash};
}

}  // namespace

// <traits, with dropout, causal, in a window, with slopes, whole tiles, whole width, capped, returning
// scores>
bool flash_forward(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  const auto traits = given.size() == 9 ? traits_of(given[0], "Flash_fwd_kernel_traits", 6) : std::nullopt;
  const auto problem = traits ? problem_of(launch, *traits, forward_bytes) : std::nullopt;
  if (!problem || !all_false(given, {1, 3, 4, 7, 8}) || !is_launched_by_queries(launch, *problem, *traits))
    return false;
  const Forward& p = problem->p;
  Hash hash;
  hash.add_bytes(&p.scale, sizeof p.scale);
  if (!read_inputs(problem->in, element, hash, out)) return false;
  const Strides result{p.result_batch, p.result_row, p.result_head};
  hash_tensor(hash, problem->queries, result);
  if (!touch_tensor(out, p.result, problem->queries, result, element, TouchKind::write)) return false;
  touch_if_there(out, p.log_sums, size(p.batches) * size(p.heads) * size(p.queries) * sum, TouchKind::write);
  out.scalars = hash.value();
  return true;
}

// <clear the queries' gradient, traits>: the products of each row of the result with its gradient
bool flash_products(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  const auto traits = given.size() == 2 ? backward_traits(given[1]) : std::nullopt;
  auto backward = traits ? backward_of(launch, *traits) : std::nullopt;
  if (!backward || !is_launched_by_queries(launch, backward->problem, *traits)) return false;
  const Forward& p = backward->problem.p;
  if (!backward->touch_result_gradient(out) ||
      !backward->touch(out, p.result, backward->problem.queries,
                       {p.result_batch, p.result_row, p.result_head}, element, TouchKind::read) ||
      !backward->touch_products(out, TouchKind::write) ||
      (given[0] == "true" && !backward->touch_query_sums(out, TouchKind::write)))
    return false;
  out.scalars = backward->hash.value();
  return true;
}

// <traits, with dropout, causal, in a window, with slopes, whole tiles, whole width, capped>: keys are split
// among blocks, which add up the queries' gradient.
bool flash_backward(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  const auto traits = given.size() == 8 ? backward_traits(given[0]) : std::nullopt;
  auto backward = traits ? backward_of(launch, *traits) : std::nullopt;
  if (!backward || !all_false(given, {1, 3, 4, 7})) return false;
  const Forward& p = backward->problem.p;
  const Gradients& g = backward->g;
  const Shape& keys = backward->problem.keys;
  if (!read_inputs(backward->problem.in, element, backward->hash, out) ||
      !backward->touch_result_gradient(out) ||
      !backward->touch_rows(out, p.log_sums, size(p.queries), p.queries, TouchKind::read) ||
      !backward->touch_products(out, TouchKind::read) ||
      !backward->touch_query_sums(out, TouchKind::read_write) ||
      !backward->touch(out, g.key_gradient, keys, {g.key_batch, g.key_row, g.key_head}, element,
                       TouchKind::write) ||
      !backward->touch(out, g.value_gradient, keys, {g.value_batch, g.value_row, g.value_head}, element,
                       TouchKind::write))
    return false;
  out.scalars = backward->hash.value();
  return true;
}

// <traits>(params, parts): the sums become the queries' gradient.
bool flash_query_gradient(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  const auto traits = given.size() == 1 ? backward_traits(given[0]) : std::nullopt;
  auto backward = traits ? backward_of(launch, *traits) : std::nullopt;
  if (!backward || !sizes_are(launch, {backward_bytes, 4}) || count(launch, 1) != 1 ||
      !is_launched_by_queries(launch, backward->problem, *traits))
    return false;
  const Gradients& g = backward->g;
  if (!backward->touch_query_sums(out, TouchKind::read) ||
      !backward->touch(out, g.query_gradient, backward->problem.queries,
                       {g.query_batch, g.query_row, g.query_head}, element, TouchKind::write))
    return false;
  out.scalars = backward->hash.value();
  return true;
}

}  // namespace softgpu::pytorch

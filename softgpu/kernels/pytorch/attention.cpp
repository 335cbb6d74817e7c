// Attention that keeps no matrix of scores, in float: fmha_cutlassF_…(Params) and fmha_cutlassB_…(Params) of
// native/transformers/cuda/mem_eff_attention/kernel_forward.h and kernel_backward.h.
#include <cstddef>

#include "softgpu/kernels/pytorch/attention.h"

namespace softgpu::pytorch {
namespace {

constexpr std::uint32_t element = sizeof(float);
constexpr std::uint8_t causal_from_top_left = 1;  // 0: no mask

// AttentionKernel<float, …>::Params
struct Forward {
  std::uint64_t query, key, value, bias, query_starts, key_starts, key_lengths;
  std::uint32_t diagonal_offset;
  std::uint64_t result, accumulated, log_sums;
  std::int32_t window;
  float scale;
  std::int32_t width, value_width, queries, keys, keys_absolute;  // the last is set on the device
  std::uint8_t mask;
  std::int32_t query_row, key_row, value_row, bias_row, result_row, query_head, key_head, value_head;
  std::int64_t bias_head, query_batch, key_batch, value_batch, bias_batch;
  std::int32_t batches, heads;
  bool dropout;
  std::uint64_t dropout_state[8];
};
static_assert(sizeof(Forward) == 272);

// AttentionBackwardKernel<…, float, …>::Params
struct Backward {
  std::uint64_t query, key, value, bias, log_sums, result, gradient, delta, query_starts, key_starts;
  std::uint64_t query_gradient, key_gradient, value_gradient, bias_gradient;
  std::uint64_t workspace, workspace_values, workspace_queries;  // the last two are set on the device
  std::int32_t window;
  float scale;
  std::int32_t width, value_width, queries, keys, heads;
  std::uint8_t mask;
  std::int64_t query_row, key_row, value_row, bias_row, gradient_row, bias_gradient_row;
  std::int8_t gradients_packed;  // 3: side by side
  std::uint64_t dropout_state[5];
  float dropout;
  std::int64_t result_head;
  std::int32_t query_head, key_head, value_head;
  std::int64_t bias_head, result_batch, query_batch, key_batch, value_batch, bias_batch;
  std::int64_t log_sums_batch, log_sums_head, delta_batch, delta_head;
  std::int32_t batches;
  std::int16_t key_splits;
  std::int64_t gradient_batch, query_gradient_batch, key_gradient_batch, value_gradient_batch,
      bias_gradient_batch, gradient_head, query_gradient_head, key_gradient_head, value_gradient_head,
      bias_gradient_head;
};
static_assert(sizeof(Backward) == 464);

// 2.15 may start at a later head of a later sequence, and let some heads share keys.
struct ForwardNewer {
  std::byte begin[offsetof(Forward, batches)];
  std::int32_t batches, first_batch, first_head, heads, heads_of_keys;
  bool dropout;
  std::uint64_t dropout_state[8];
};
static_assert(sizeof(ForwardNewer) == 280);
struct BackwardNewer {
  std::byte begin[offsetof(Backward, mask)];
  std::int32_t heads_of_keys;
  std::uint8_t mask;
  alignas(8) std::byte middle[offsetof(Backward, batches) - offsetof(Backward, query_row)];
  std::int32_t batches, first_batch, first_head;
  std::int16_t key_splits;
  alignas(8) std::byte end[sizeof(Backward) - offsetof(Backward, gradient_batch)];
};
static_assert(sizeof(BackwardNewer) == 480);

template <class Newer>
bool as_before(const Newer& newer) {
  return newer.first_batch == 0 && newer.first_head == 0 && newer.heads_of_keys == 1;
}

// The launch's parameters, of whichever version.
std::optional<Forward> forward_of(const KernelLaunch& launch) {
  if (sizes_are(launch, {sizeof(Forward)})) return parameter<Forward>(launch, 0);
  if (!sizes_are(launch, {sizeof(ForwardNewer)})) return std::nullopt;
  const auto newer = parameter<ForwardNewer>(launch, 0);
  Forward p{};
  std::memcpy(&p, newer.begin, sizeof newer.begin);
  p.batches = newer.batches;
  p.heads = newer.heads;
  p.dropout = newer.dropout;
  return as_before(newer) ? std::optional(p) : std::nullopt;
}

std::optional<Backward> backward_of(const KernelLaunch& launch) {
  if (sizes_are(launch, {sizeof(Backward)})) return parameter<Backward>(launch, 0);
  if (!sizes_are(launch, {sizeof(BackwardNewer)})) return std::nullopt;
  const auto newer = parameter<BackwardNewer>(launch, 0);
  Backward p{};
  std::memcpy(&p, newer.begin, sizeof newer.begin);
  p.mask = newer.mask;
  std::memcpy(&p.query_row, newer.middle, sizeof newer.middle);
  p.batches = newer.batches;
  p.key_splits = newer.key_splits;
  std::memcpy(&p.gradient_batch, newer.end, sizeof newer.end);
  return as_before(newer) ? std::optional(p) : std::nullopt;
}

std::uint64_t size(std::int32_t value) {
  return static_cast<std::uint64_t>(value);
}

template <class Params>
Inputs inputs_of(const Params& p) {
  const std::uint64_t batches = size(p.batches), heads = size(p.heads);
  return {{p.query, p.key, p.value},
          {{batches, heads, size(p.queries), size(p.width)},
           {batches, heads, size(p.keys), size(p.width)},
           {batches, heads, size(p.keys), size(p.value_width)}},
          {{p.query_batch, p.query_row, p.query_head},
           {p.key_batch, p.key_row, p.key_head},
           {p.value_batch, p.value_row, p.value_head}}};
}

// All sequences are of one length; no bias, no window, and of masks the one under which every query sees a
// key.
template <class Params>
bool plain(const Params& p) {
  return p.bias == 0 && p.query_starts == 0 && p.key_starts == 0 && p.window == 0 &&
         p.mask <= causal_from_top_left && p.batches > 0 && p.heads > 0 && p.queries > 1 && p.keys > 0 &&
         p.width > 0 && p.value_width > 0;
}

// Of scores that blocks of threads work on together: queries, keys.
struct Tile {
  std::uint32_t queries, keys;
};

// <type, …>: the tile is at `at` and behind it.
std::optional<Tile> tile_of(const KernelLaunch& launch, std::size_t arguments, std::size_t type,
                            std::size_t at) {
  const auto given = template_arguments(launch.name);
  if (given.size() != arguments || given[type] != "float") return std::nullopt;
  const Tile tile{number(given[at]).value_or(0), number(given[at + 1]).value_or(0)};
  return tile.queries == 0 || tile.keys == 0 ? std::nullopt : std::optional(tile);
}

}  // namespace

// AttentionKernel<type, device, aligned, queries and keys of a tile, widest head, with dropout, with bias>
bool attention_forward(const KernelLaunch& launch, Footprint& out) {
  const auto tile = tile_of(launch, 8, 0, 3);
  const auto parameters = tile ? forward_of(launch) : std::nullopt;
  if (!parameters) return false;
  const Forward& p = *parameters;
  if (!plain(p) || p.diagonal_offset != 0 || p.key_lengths != 0 || p.accumulated != 0 || p.dropout)
    return false;
  const auto in = inputs_of(p);
  const Shape &query = in.shapes[0], &value = in.shapes[2];
  if (launch.grid[0] != (query.rows + tile->queries - 1) / tile->queries || launch.grid[1] != query.heads ||
      launch.grid[2] != query.batches)
    return false;
  Hash hash(p.mask);
  hash.add_bytes(&p.scale, sizeof p.scale);
  if (!read_inputs(in, element, hash, out)) return false;
  const Shape result{query.batches, query.heads, query.rows, value.width};
  const Strides strides{std::int64_t{p.queries} * p.result_row, p.result_row, p.value_width};
  hash_tensor(hash, result, strides);
  if (!touch_tensor(out, p.result, result, strides, element, TouchKind::write)) return false;
  // kAlignLSE: rows of it end at a multiple of 32, all of which is written.
  touch_if_there(out, p.log_sums, query.batches * query.heads * rounded_up(query.rows, 32) * element,
                 TouchKind::write);
  out.scalars = hash.add(p.log_sums != 0).value();
  return true;
}

// AttentionBackwardKernel<device, type, aligned, with dropout, preloading, queries and keys of a tile, widest
// head, whole tiles>. Keys are split among the blocks of a head, which add up the queries' gradient in the
// workspace, in zeros that the program left there: tiles, each behind a lock and a counter
// (GradQTempStorage).
bool attention_backward(const KernelLaunch& launch, Footprint& out) {
  const auto tile = tile_of(launch, 9, 1, 5);
  const auto parameters = tile ? backward_of(launch) : std::nullopt;
  if (!parameters) return false;
  const Backward& p = *parameters;
  if (!plain(p) || p.bias_gradient != 0 || p.dropout != 0 || p.gradients_packed != 1 || p.key_splits <= 1 ||
      p.workspace == 0)
    return false;
  const auto in = inputs_of(p);
  const Shape &query = in.shapes[0], &key = in.shapes[1], &value = in.shapes[2];
  if (launch.grid[0] != static_cast<unsigned>(p.key_splits) || launch.grid[1] != query.heads ||
      launch.grid[2] != query.batches)
    return false;
  Hash hash(p.mask);
  hash.add_bytes(&p.scale, sizeof p.scale).add(launch.grid[0]);
  if (!read_inputs(in, element, hash, out)) return false;

  const auto operand = [&](std::uint64_t address, const Shape& shape, const Strides& strides,
                           TouchKind kind) {
    hash_tensor(hash, shape, strides);
    return touch_tensor(out, address, shape, strides, element, kind);
  };
  const Shape result{query.batches, query.heads, query.rows, value.width};
  const Shape sums{query.batches, query.heads, query.rows, 1};
  // gQ_strideM() and the like
  const std::int64_t wide = std::int64_t{p.heads} * p.width,
                     value_wide = std::int64_t{p.heads} * p.value_width;
  if (!operand(p.gradient, result, {p.gradient_batch, p.gradient_row, p.gradient_head}, TouchKind::read) ||
      !operand(p.log_sums, sums, {p.log_sums_batch, 1, p.log_sums_head}, TouchKind::read) ||
      !operand(p.delta, sums, {p.delta_batch, 1, p.delta_head}, TouchKind::read) ||
      !operand(p.query_gradient, query, {p.query_gradient_batch, wide, p.query_gradient_head},
               TouchKind::write) ||
      !operand(p.key_gradient, key, {p.key_gradient_batch, wide, p.key_gradient_head}, TouchKind::write) ||
      !operand(p.value_gradient, value, {p.value_gradient_batch, value_wide, p.value_gradient_head},
               TouchKind::write))
    return false;
  const std::uint64_t tiles =
      (query.rows + tile->queries - 1) / tile->queries * ((query.width + tile->keys - 1) / tile->keys);
  const std::uint64_t tile_bytes = 16 + std::uint64_t{tile->queries} * tile->keys * element;
  touch(out, p.workspace, query.batches * query.heads * tiles * tile_bytes, TouchKind::read_write);
  out.scalars = hash.value();
  return true;
}

}  // namespace softgpu::pytorch

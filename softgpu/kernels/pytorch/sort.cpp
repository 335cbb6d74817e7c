// Sorting by radix, prefix sums and what differs from the one before, of CUB 3.0: cub/device/dispatch/kernels
// and cub/agent.
//
// Blocks leave each other their sums so far in memory that the launch before has cleared. That state is read
// and written: what was there goes into the results, so a cleared state that was lost shows in them. How it
// is left depends on which block ran first, but nobody reads it.
#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {
namespace {

constexpr std::uint64_t digit_bits = 8, digits = 1 << digit_bits;  // ONESWEEP_RADIX_BITS of all policies
constexpr std::uint64_t padding = 32;                              // TILE_STATUS_PADDING
constexpr std::uint64_t warp = 32;

// Of a tile's sum beside its status: ScanTileState<type, true>, one word for both.
std::uint64_t state_bytes(std::string_view type) {
  const auto given = template_arguments(type);
  if (template_name(type) != "at_cuda_detail::cub::ScanTileState" || given.size() != 2 || given[1] != "true")
    return 0;
  const std::uint64_t bytes = bytes_of(given[0]);
  return bytes >= 4 ? 2 * bytes : 0;
}

}  // namespace

// <policy, order, key, offset, decomposer>(counts of each pass and digit, keys, items, first bit, end bit,
// decomposer). It adds to the counts.
bool sort_histogram(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  if (given.size() != 5 || !sizes_are(launch, {pointer, pointer, 8, 4, 4, 1})) return false;
  const std::uint64_t key = bytes_of(given[2]), offset = bytes_of(given[3]);
  const std::uint64_t first = count(launch, 3), end = count(launch, 4);
  if (key == 0 || offset == 0 || first >= end || end > 8 * key) return false;
  const std::uint64_t passes = (end - first + digit_bits - 1) / digit_bits;
  touch(out, address(launch, 1), count(launch, 2) * key, TouchKind::read);
  touch(out, address(launch, 0), passes * digits * offset, TouchKind::read_write);
  out.scalars = hash_of(launch, 2, 5);
  return true;
}

// <policy, offset>(counts): each pass's become the sums of those before.
bool sort_bin_sums(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  const std::uint64_t offset = given.size() == 2 ? bytes_of(given[1]) : 0;
  if (offset == 0 || !sizes_are(launch, {pointer})) return false;
  touch(out, address(launch, 0), launch.grid[0] * digits * offset, TouchKind::read_write);
  out.scalars = Hash(launch.grid[0]).value();
  return true;
}

// <policy, order, key, value, offset, offset within a portion, counter, decomposer>(state, counter of tiles,
// next portion's sums, sums, keys out, keys, values out, values, items, first bit, bits, decomposer)
bool sort_pass(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  if (given.size() != 8 || given[5] != "int" || given[6] != "int" ||
      !sizes_are(launch,
                 {pointer, pointer, pointer, pointer, pointer, pointer, pointer, pointer, 4, 4, 4, 1}))
    return false;
  const std::uint64_t key = bytes_of(given[2]), value = opaque_bytes(given[3]), offset = bytes_of(given[4]);
  const std::uint64_t items = count(launch, 8);
  if (key == 0 || value == 0 || offset == 0 || address(launch, 2) != 0) return false;
  touch(out, address(launch, 0), launch.grid[0] * digits * sizeof(std::int32_t), TouchKind::read_write);
  touch(out, address(launch, 1), sizeof(std::int32_t), TouchKind::read_write);
  touch(out, address(launch, 3), digits * offset, TouchKind::read);
  touch(out, address(launch, 5), items * key, TouchKind::read);
  touch(out, address(launch, 7), items * value, TouchKind::read);
  touch(out, address(launch, 4), items * key, TouchKind::write);
  touch(out, address(launch, 6), items * value, TouchKind::write);
  out.scalars = hash_of(launch, 8, 11);
  return true;
}

// <state>(state, tiles)
bool scan_start(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  const std::uint64_t state = given.size() == 1 ? state_bytes(given[0]) : 0;
  if (state == 0 || !sizes_are(launch, {pointer, 4})) return false;
  touch(out, address(launch, 0), (padding + count(launch, 1)) * state, TouchKind::write);
  out.scalars = hash_of(launch, 1, 2);
  return true;
}

// <state, number*>(state, tiles, how many were chosen)
bool compaction_start(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  if (given.size() != 2 || !sizes_are(launch, {pointer, 4, pointer})) return false;
  const std::uint64_t state = state_bytes(given[0]), chosen = bytes_behind(given[1]);
  if (state == 0 || chosen == 0) return false;
  touch(out, address(launch, 0), (padding + count(launch, 1)) * state, TouchKind::write);
  touch(out, address(launch, 2), chosen, TouchKind::write);
  out.scalars = hash_of(launch, 1, 2);
  return true;
}

// PyTorch adds up all of an array's room, of which the launch before has set as much as the device knows. How
// much room there is it is told in whole warps alone (embedding.cpp), so the last 31 numbers may be of
// nobody. <policy, in, out, state, sum, first value, offset, …>(in, out, state, first tile, sum, first value,
// items)
bool scan(const KernelLaunch& launch, Footprint& out) {
  // InputValue: the value, or where it will be
  struct First {
    bool will_be;
    std::uint64_t value;
  };
  const auto given = template_arguments(launch.name);
  if (given.size() != 10 || !given[4].starts_with("at::cuda::cub::(anonymous namespace)::SumOp<") ||
      template_name(given[5]) != "at_cuda_detail::cub::detail::InputValue" ||
      !sizes_are(launch, {pointer, pointer, pointer, 4, 1, sizeof(First), 4}))
    return false;
  const std::uint64_t in = bytes_behind(given[1]), result = bytes_behind(given[2]),
                      state = state_bytes(given[3]);
  const auto first = parameter<First>(launch, 5);
  if (in == 0 || result != 8 || state == 0 || first.will_be || count(launch, 3) != 0) return false;
  const std::uint64_t items = count(launch, 6);
  const std::uint64_t set = items == 0 ? 0 : (items - 1) / warp * warp + 1;
  touch(out, address(launch, 0), set * in, TouchKind::read);
  touch(out, address(launch, 0) + set * in, (items - set) * in, TouchKind::reach);
  touch(out, address(launch, 2), (padding + launch.grid[0]) * state, TouchKind::read_write);
  touch(out, address(launch, 1), items * result, TouchKind::write);
  out.scalars = Hash(items).add(first.value).value();
  return true;
}

// <policy, keys, values, keys out, values out, number*, state, equality, offset, …>(keys, value of the first,
// keys out, values out, how many were chosen, state, equality, items, tiles, memory in place of shared
// memory). Values are counted from the first on, in 32 or 64 bits. How many results there are is known on the
// device alone; behind them is room for as many as there are items, and whoever reads on there reads what
// nobody means. So all of it counts as written: it is alike in all runs then.
bool unique_keys(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  if (given.size() != 10 || template_name(given[2]).find("::counting_iterator") == std::string_view::npos ||
      given[7] != "cuda::std::__4::equal_to<void>" || launch.param_count < 2 ||
      (launch.param_sizes[1] != 4 && launch.param_sizes[1] != 8) ||
      !sizes_are(launch,
                 {pointer, launch.param_sizes[1], pointer, pointer, pointer, pointer, 1, 8, 4, pointer}))
    return false;
  const std::uint64_t key = bytes_behind(given[1]), key_out = bytes_behind(given[3]);
  const std::uint64_t value_out = bytes_behind(given[4]), chosen = bytes_behind(given[5]);
  const std::uint64_t state = state_bytes(given[6]), items = count(launch, 7), tiles = count(launch, 8);
  if (key == 0 || key_out == 0 || value_out == 0 || chosen == 0 || state == 0 || tiles != launch.grid[0])
    return false;
  touch(out, address(launch, 0), items * key, TouchKind::read);
  touch(out, address(launch, 5), (padding + tiles) * state, TouchKind::read_write);
  touch(out, address(launch, 2), items * key_out, TouchKind::write);
  touch(out, address(launch, 3), items * value_out, TouchKind::write);
  touch(out, address(launch, 4), chosen, TouchKind::write);
  out.scalars = hash_of(launch, 7, 9, count(launch, 1));
  return true;
}

}  // namespace softgpu::pytorch

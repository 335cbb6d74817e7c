// What looking for addresses costs a copy from the host: processor time per copy.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "runtime/session/address_table.h"

namespace {

using namespace pooch;
using namespace pooch::runtime;

void look_for_addresses(benchmark::State& state) {
  std::vector<std::uint32_t> tokens(static_cast<std::size_t>(state.range(0)) * 1024 / 4);
  std::uint64_t random = 1;
  for (std::uint32_t& each : tokens)
    each = static_cast<std::uint32_t>((random = random * 6364136223846793005U + 1) >> 33) % 65536;
  const HostBlock block(std::as_bytes(std::span<const std::uint32_t>(tokens)));
  for (auto _ : state)
    find_addresses(
        block, Evidence::table, Address{0x6a5a'4c00'0000}, std::uint64_t{40} << 30,
        [](Address) { return PointsTo::inside; }, [](Address) {});
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0) * 1024);
}
BENCHMARK(look_for_addresses)->Arg(4)->Arg(64)->Arg(1024)->Arg(100 << 10)->ArgName("KiB");

}  // namespace

BENCHMARK_MAIN();

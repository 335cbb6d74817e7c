// How fast pooch's own kernel makes batch norms again, and compares with them: beside copies within the
// device, which read and write as many bytes.
#include "interpose/device/real_device.h"
#include "tests/gpu/sections.h"

namespace pooch::facts {
namespace {

template <class T>
T must_be(Result<T> result) {
  if (!result) throw NoAnswer(result.error().message);
  return std::move(*result);
}

void must_be(const Status& status) {
  if (!status) throw NoAnswer(status.error().message);
}

}  // namespace

// With rows as ResNet-50 has them, which neither begin at 16 bytes nor fill a warp. Rates are of all that is
// read and written.
void batch_norm_kernel_section(Bench& bench, Json& out) {
  const std::size_t bytes = std::min(bench.bulk, 256 * MiB);
  const int times = bench.software ? 1 : 20;
  constexpr std::uint32_t channels = 64;
  const auto device = must_be(interpose::RealDevice::open());
  const DeviceMemory x(bytes), y(bytes), numbers(channels * sizeof(float));
  const HostMemory differs(formulas * sizeof(std::uint32_t));
  const StreamHandle stream{reinterpret_cast<std::uintptr_t>(static_cast<CUstream>(bench.stream))};
  const auto at = [](CUdeviceptr place) { return Address{place}; };
  constexpr unsigned half = 0x3f000000;  // 0.5
  for (const auto& [place, size] : {std::pair<CUdeviceptr, std::size_t>{x, bytes}, {numbers, channels * 4}})
    must_call(cuMemsetD32Async, place, half, size / 4, bench.stream);
  const Event begin, end;
  const auto rate = [&](const std::function<void()>& submit, double moved) {
    submit();
    begin.record(bench.stream);
    for (int i = 0; i < times; ++i) submit();
    end.record(bench.stream);
    bench.stream.finish();
    return times * moved / end.microseconds_since(begin) * 1e6;
  };
  const auto both = 2 * static_cast<double>(bytes);
  out["bytes"] = bytes;
  out["copy_bytes_per_s"] = rate([&] { must_call(cuMemcpyDtoDAsync, y, x, bytes, bench.stream); }, both);
  Json cases = Json::array();
  for (const std::uint32_t row : {49U, 196U, 3136U}) {
    NormaliseCall call;
    call.how = {bytes / sizeof(float) / row, row, channels};
    call.at = {at(x), at(y), at(numbers), at(numbers), at(numbers), at(numbers)};
    call.formula = Formula::one_fma;
    const double moved = 2.0 * static_cast<double>(call.how.rows * row * sizeof(float));
    const double normalised = rate([&] { must_be(device->normalise(call, stream)); }, moved);
    auto* const words = static_cast<std::uint32_t(*)[formulas]>(differs.get());
    const double compared = rate([&] { must_be(device->compare(call, words, stream)); }, moved);
    cases.push_back({{"row", row}, {"normalise_bytes_per_s", normalised}, {"compare_bytes_per_s", compared}});
  }
  out["cases"] = std::move(cases);
}

}  // namespace pooch::facts

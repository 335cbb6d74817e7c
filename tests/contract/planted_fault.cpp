// A small training-like loop through a session on the software GPU, with one defect planted in the device
// below the session. Started by planted_faults.py, a process per fault, because a violation is sticky.
//
// usage: planted_fault none|lost_wait|early_free|double_mapping|hasty_reuse|shared_slot N
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "interpose/device/real_device.h"
#include "runtime/session/session.h"
#include "softgpu/image.h"
#include "tests/support/driver.h"
#include "tests/support/faulty_device.h"

namespace pooch::test {
namespace {

constexpr std::uint64_t tensor_bytes = 4 * MiB;
constexpr int layers = 16;
constexpr int refused = 2;

// out = in, both `tensor_bytes` long.
constexpr std::uint32_t layer_params[] = {8, 8};
void layer_footprint(const void* const* params, softgpu::Footprint& out) {
  const auto in = *static_cast<const std::uint64_t*>(params[0]),
             to = *static_cast<const std::uint64_t*>(params[1]);
  if (in != 0) out.touches.push_back({in, tensor_bytes, softgpu::TouchKind::read});
  out.touches.push_back({to, tensor_bytes, softgpu::TouchKind::write});
  out.kind = "elementwise";
  out.bytes = 2.0 * tensor_bytes;
}
void layer_run(const void* const* params) {
  const auto in = *static_cast<const std::uint64_t*>(params[0]),
             to = *static_cast<const std::uint64_t*>(params[1]);
  auto* const target = reinterpret_cast<std::byte*>(to);
  if (in != 0) {
    std::memcpy(target, reinterpret_cast<const std::byte*>(in), tensor_bytes);
  } else {
    std::memset(target, 1, tensor_bytes);
  }
}
constexpr softgpu::KernelEntry kernels[] = {{"layer", layer_params, 2, layer_footprint, layer_run}};
constexpr softgpu::Image image{softgpu::image_magic, 1, kernels};

class Loop {
 public:
  Loop(runtime::Session& session, CUfunction kernel) : session_(session), kernel_(kernel) {
    // Two streams, as a program that computes in one and loads or reduces in another.
    for (CUstream& stream : streams_) driver_call(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    driver_call(cuEventCreate, &turn_, CU_EVENT_DISABLE_TIMING);
  }

  bool iterate() {
    std::vector<Address> maps;
    for (int i = 0; i < layers; ++i) {
      const auto made = session_.allocate(tensor_bytes, stream());
      if (!made) return false;
      maps.push_back(*made);
      if (!layer(i == 0 ? Address{} : maps[static_cast<std::size_t>(i) - 1], maps.back())) return false;
      if (i % 3 == 2) change_stream();
    }
    // Backward: every map is fetched, and a gradient that stays is written beside it.
    std::vector<Address> gradients;
    for (int i = layers - 1; i >= 0; --i) {
      const Address map = maps[static_cast<std::size_t>(i)];
      const auto made = session_.allocate(tensor_bytes, stream());
      if (!made) return false;
      gradients.push_back(*made);
      if (!layer(map, gradients.back()) || !session_.free(map, stream())) return false;
      if (i % 3 == 0) change_stream();
    }
    for (const Address gradient : gradients)
      if (!session_.free(gradient, stream())) return false;
    return true;
  }

 private:
  StreamHandle stream() const { return StreamHandle{reinterpret_cast<std::uintptr_t>(streams_[current_])}; }

  void change_stream() {
    driver_call(cuEventRecord, turn_, streams_[current_]);
    current_ ^= 1;
    driver_call(cuStreamWaitEvent, streams_[current_], turn_, 0);
  }

  bool layer(Address in, Address out) {
    std::vector<Access> accesses{{out, tensor_bytes, Effect::overwrite}};
    if (in != Address{}) accesses.push_back({in, tensor_bytes, Effect::read});
    std::uint64_t from = raw(in), to = raw(out);
    void* params[] = {&from, &to};
    const int status = session_.submit(
        {"layer", OpKind::elementwise, stream(), accesses},
        [&]() -> int {
          return driver_call(cuLaunchKernel, kernel_, 1, 1, 1, 1, 1, 1, 0, streams_[current_], params,
                             nullptr);
        },
        refused);
    return status == 0;
  }

  runtime::Session& session_;
  CUfunction kernel_;
  CUstream streams_[2] = {};
  CUevent turn_ = nullptr;
  int current_ = 0;
};

std::optional<Fault> fault_of(const std::string& name) {
  if (name == "lost_wait") return Fault::lost_wait;
  if (name == "early_free") return Fault::early_free;
  if (name == "double_mapping") return Fault::double_mapping;
  if (name == "hasty_reuse") return Fault::hasty_reuse;
  if (name == "shared_slot") return Fault::shared_slot;
  return std::nullopt;
}

int run(const std::string& fault_name, std::uint64_t n) {
  if (const auto& why = Driver::instance().failure(); !why.empty()) {
    std::fprintf(stderr, "no device: %s\n", why.c_str());
    return 3;
  }
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  if (driver_call(cuLibraryLoadData, &library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0) !=
          CUDA_SUCCESS ||
      driver_call(cuLibraryGetKernel, &kernel, library, "layer") != CUDA_SUCCESS)
    return 3;
  auto device = interpose::RealDevice::open();
  if (!device) return 3;
  const auto fault = fault_of(fault_name);
  FaultyDevice faulty(**device, fault.value_or(Fault::lost_wait), fault ? n : ~std::uint64_t{0});
  Config config;
  config.memory_cap = SizeSetting{"24MiB"};
  config.host_memory = SizeSetting{"160MiB"};
  auto session = runtime::Session::open(config, faulty);
  if (!session) return 3;
  Loop loop(**session, reinterpret_cast<CUfunction>(kernel));
  bool fine = true;
  for (int i = 0; i < 3 && fine; ++i) fine = loop.iterate();
  fine = driver_call(cuCtxSynchronize) == CUDA_SUCCESS && fine;
  std::printf("struck %d fine %d evictions %llu\n", faulty.struck(), fine,
              static_cast<unsigned long long>((*session)->summary().evictions));
  std::fflush(stdout);
  std::_Exit(0);  // after a violation nothing of the session can be taken down in order
}

}  // namespace
}  // namespace pooch::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return pooch::test::run(argv[1], std::strtoull(argv[2], nullptr, 10));
}

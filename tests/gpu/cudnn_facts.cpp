// Sections of the program `cudnn_facts`: what pooch's replays rest on, asked of cuDNN itself.
#include <cudnn.h>

#include <algorithm>

#include "tests/cudnn_graph.h"
#include "tests/gpu/facts.h"

namespace pooch::facts {
namespace {

using namespace cudnn_graph;

constexpr std::size_t most_engines = 6;

class Handle {
 public:
  explicit Handle(const Stream& stream) {
    cudnn_graph::check(cudnnCreate(&handle_), "cudnnCreate");
    cudnn_graph::check(cudnnSetStream(handle_, stream), "cudnnSetStream");
  }
  ~Handle() { destroy(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator cudnnHandle_t() const { return handle_; }
  void destroy() {
    if (handle_ != nullptr) cudnnDestroy(std::exchange(handle_, nullptr));
  }

 private:
  cudnnHandle_t handle_ = nullptr;
};

class Tensor {
 public:
  explicit Tensor(const Numbers& dims)
      : elements_(static_cast<std::size_t>(dims[0] * dims[1] * dims[2] * dims[3])),
        memory_(bytes()),
        host_(bytes()) {}
  void* device() const { return reinterpret_cast<void*>(static_cast<CUdeviceptr>(memory_)); }
  void fill(const Stream& stream) const {
    for (std::size_t i = 0; i < elements_; ++i)
      values()[i] = static_cast<float>(i * 2654435761U % 4096) / 4096 - 0.5f;
    must_call(cuMemcpyHtoDAsync, memory_, host_.get(), bytes(), stream);
  }
  void clear(const Stream& stream) const { must_call(cuMemsetD32Async, memory_, 0U, elements_, stream); }
  std::vector<float> read(const Stream& stream) const {
    must_call(cuMemcpyDtoHAsync, host_.get(), memory_, bytes(), stream);
    stream.finish();
    return {values(), values() + elements_};
  }

 private:
  std::size_t bytes() const { return elements_ * sizeof(float); }
  float* values() const { return static_cast<float*>(host_.get()); }
  std::size_t elements_;
  DeviceMemory memory_;
  HostMemory host_;
};

const Numbers x_dims{8, 16, 30, 30}, w_dims{32, 16, 3, 3}, y_dims{8, 32, 30, 30};

Descriptor graph_by(const Handle& handle) {
  const Descriptor x = tensor('x', x_dims, packed_strides(x_dims)),
                   w = tensor('w', w_dims, packed_strides(w_dims)),
                   y = tensor('y', y_dims, packed_strides(y_dims));
  const Descriptor op = operation(forward, x, w, y, convolution({1, 1}, {1, 1}, {1, 1}));
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  return std::move(graph.part(CUDNN_ATTR_OPERATIONGRAPH_OPS, op).finalize());
}

Descriptor plan_by(const Handle& handle, const Descriptor& configuration) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  return std::move(plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration).finalize());
}

class Runs {
 public:
  explicit Runs(Bench& bench) : bench_(bench), x_(x_dims), w_(w_dims), y_(y_dims) {
    x_.fill(bench.stream);
    w_.fill(bench.stream);
    bench.stream.finish();
  }
  std::vector<float> by(const Handle& handle, const Stream& stream, const Descriptor& plan, const Tensor& y,
                        const DeviceMemory& workspace) {
    const auto at = reinterpret_cast<void*>(static_cast<CUdeviceptr>(workspace));
    const auto pack = pack_of({'x', 'w', 'y'}, {x_.device(), w_.device(), y.device()}, at);
    y.clear(stream);
    cudnn_graph::check(cudnnBackendExecute(handle, plan.raw(), pack.raw()), "cudnnBackendExecute");
    return y.read(stream);
  }
  // What becomes of the plan with another handle, in another stream, at other addresses; and once the handle
  // that it was made with is gone.
  Json of_engine(std::size_t index) {
    Handle maker(bench_.stream);
    const Handle other(bench_.other);
    const Tensor elsewhere(y_dims);
    const auto all = configurations(graph_by(maker));
    if (index >= all.size()) return nullptr;
    const Descriptor plan = plan_by(maker, all[index]);
    const auto bytes = static_cast<std::size_t>(workspace_of(plan));
    const DeviceMemory workspace(bytes + 1), own(bytes + 1);
    const auto expected = by(maker, bench_.stream, plan, y_, workspace);
    const bool repeats = by(maker, bench_.stream, plan, y_, workspace) == expected;
    // A plan that its maker can execute must not be refused to another.
    const auto by_other_again = [&] {
      try {
        return by(other, bench_.other, plan, elsewhere, own) == expected;
      } catch (const std::runtime_error&) {
        return false;
      }
    };
    const bool by_other = by_other_again();
    maker.destroy();
    const bool without_maker = by_other_again();
    return {{"workspace_bytes", bytes},
            {"repeats", repeats},
            {"same_by_another_handle", by_other},
            {"same_without_its_maker", without_maker}};
  }

 private:
  Bench& bench_;
  Tensor x_, w_, y_;
};

// pooch executes a program's plans again by a handle and in a stream of its own, at other addresses.
void backend_plan_section(Bench& bench, Json& out) {
  if (!bench.holds_bytes) throw NoAnswer("memory has no content here");
  Json engines = Json::array(), wrong = Json::array();
  Runs runs(bench);
  for (std::size_t i = 0; i < most_engines; ++i) {
    Json found;
    try {
      found = runs.of_engine(i);
    } catch (const std::runtime_error& refused) {  // not every configuration that is offered can be built
      found = {{"refused", refused.what()}};
    }
    if (found.is_null()) break;
    for (const char* key : {"same_by_another_handle", "same_without_its_maker"})
      if (found.value("repeats", false) && !found[key])
        wrong.push_back("engine " + std::to_string(i) + ": not " + key);
    engines.push_back(std::move(found));
  }
  const bool any = std::ranges::any_of(engines, [](const Json& one) { return one.value("repeats", false); });
  if (!any) throw NoAnswer("no engine's plan could be executed: " + engines.dump());
  out = {{"engines", std::move(engines)}, {"wrong", std::move(wrong)}};
}

}  // namespace

std::span<const Section> sections() {
  static constexpr Section all[] = {{"backend_plan", backend_plan_section}};
  return all;
}

}  // namespace pooch::facts

// Sections of the program `cudnn_facts`: what pooch's replays rest on, asked of cuDNN itself.
#include <algorithm>

#include "tests/gpu/cudnn_sections.h"

namespace pooch::facts {
namespace {

using namespace cudnn_graph;

constexpr std::size_t most_engines = 6;

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

}  // namespace

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

std::span<const Section> sections() {
  static constexpr Section all[] = {{"backend_plan", backend_plan_section},
                                    {"batch_norm_saved", batch_norm_saved_section}};
  return all;
}

}  // namespace pooch::facts

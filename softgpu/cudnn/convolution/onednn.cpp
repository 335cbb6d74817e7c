#include "softgpu/cudnn/convolution/onednn.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <thread>
#include <vector>

// oneDNN's OpenMP is libgomp; its own header exists for GCC only.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int);
int omp_get_dynamic();
void omp_set_dynamic(int);
int omp_in_parallel();
}

namespace softgpu::cudnn {
namespace {

using dnnl::memory;

constexpr int thread_count = 2;

// Runs `work` with exactly thread_count OpenMP threads and leaves the caller's settings as they were.
template <class Work>
void with_fixed_threads(Work work) {
  if (omp_in_parallel()) {  // a nested region would get one thread
    std::thread([&] { with_fixed_threads(work); }).join();
    return;
  }
  const int threads = omp_get_max_threads();
  const int dynamic = omp_get_dynamic();
  omp_set_dynamic(0);
  omp_set_num_threads(thread_count);
  work();
  omp_set_num_threads(threads);
  omp_set_dynamic(dynamic);
}

const dnnl::engine& engine() {
  static const auto* const e = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *e;
}

memory::dims dims(const std::int64_t* values, int count) {
  return {values, values + count};
}

memory::desc strided(const Layout& l) {
  return {dims(l.dims, l.rank), memory::data_type::f32, dims(l.strides, l.rank)};
}

// A plan for one shape: the primitive, and how the three operands look outside and inside of it. Operands are
// in the order a, b, result of `convolve`.
struct Plan {
  dnnl::primitive primitive;
  int arguments[3];
  memory::desc outside[3];
  memory::desc inside[3];
  dnnl::reorder::primitive reorders[3];  // where outside and inside differ
  memory::desc scratchpad;

  bool reordered(int operand) const { return inside[operand] != outside[operand]; }
};

struct Problem {
  memory::dims stride, dilation, padding_begin, padding_end;
  memory::desc x, w, y;              // as the caller has them
  memory::desc x_any, w_any, y_any;  // the format left to oneDNN
};

memory::desc any_format(const memory::desc& d) {
  return {d.dims(), memory::data_type::f32, memory::format_tag::any};
}

Problem describe(const ConvShape& s, const Layout& x, const Layout& y) {
  Problem p;
  p.x = strided(x);
  p.y = strided(y);
  Layout w{};
  if (s.groups > 1) w.dims[w.rank++] = s.groups;
  w.dims[w.rank++] = s.k / s.groups;
  w.dims[w.rank++] = s.c / s.groups;
  for (int d = 0; d < s.spatial; ++d) w.dims[w.rank++] = s.kernel[d];
  std::int64_t step = 1;
  for (int d = w.rank - 1; d >= 0; --d) {
    w.strides[d] = step;
    step *= w.dims[d];
  }
  p.w = strided(w);
  p.x_any = any_format(p.x);
  p.w_any = any_format(p.w);
  p.y_any = any_format(p.y);
  for (int d = 0; d < s.spatial; ++d) {
    p.stride.push_back(s.stride[d]);
    p.dilation.push_back(s.dilation[d] - 1);
    p.padding_begin.push_back(s.padding[d]);
    const std::int64_t reach = s.dilation[d] * (s.kernel[d] - 1) + 1;
    p.padding_end.push_back((s.out[d] - 1) * s.stride[d] + reach - s.in[d] - s.padding[d]);
  }
  return p;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  // oneDNN's own scratchpad belongs to the thread that made the primitive.
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::convolution_forward::primitive_desc forward_description(const Problem& p) {
  const dnnl::convolution_forward::desc d(dnnl::prop_kind::forward_training,
                                          dnnl::algorithm::convolution_direct, p.x_any, p.w_any, p.y_any,
                                          p.stride, p.dilation, p.padding_begin, p.padding_end);
  return {d, attributes(), engine()};
}

std::unique_ptr<Plan> make_plan(ConvDirection direction, const Problem& p) {
  auto plan = std::make_unique<Plan>();
  const auto fill = [&](int operand, int argument, const memory::desc& outside, const memory::desc& inside) {
    plan->arguments[operand] = argument;
    plan->outside[operand] = outside;
    plan->inside[operand] = inside;
    if (inside == outside) return;
    const bool result = operand == 2;
    plan->reorders[operand] = dnnl::reorder(dnnl::reorder::primitive_desc(
        engine(), result ? inside : outside, engine(), result ? outside : inside, attributes()));
  };
  const auto forward = forward_description(p);
  if (direction == ConvDirection::forward) {
    plan->primitive = dnnl::convolution_forward(forward);
    plan->scratchpad = forward.scratchpad_desc();
    fill(0, DNNL_ARG_SRC, p.x, forward.src_desc());
    fill(1, DNNL_ARG_WEIGHTS, p.w, forward.weights_desc());
    fill(2, DNNL_ARG_DST, p.y, forward.dst_desc());
  } else if (direction == ConvDirection::backward_data) {
    const dnnl::convolution_backward_data::desc d(dnnl::algorithm::convolution_direct, p.x_any, p.w_any,
                                                  p.y_any, p.stride, p.dilation, p.padding_begin,
                                                  p.padding_end);
    const dnnl::convolution_backward_data::primitive_desc backward(d, attributes(), engine(), forward);
    plan->primitive = dnnl::convolution_backward_data(backward);
    plan->scratchpad = backward.scratchpad_desc();
    fill(0, DNNL_ARG_WEIGHTS, p.w, backward.weights_desc());
    fill(1, DNNL_ARG_DIFF_DST, p.y, backward.diff_dst_desc());
    fill(2, DNNL_ARG_DIFF_SRC, p.x, backward.diff_src_desc());
  } else {
    const dnnl::convolution_backward_weights::desc d(dnnl::algorithm::convolution_direct, p.x_any, p.w_any,
                                                     p.y_any, p.stride, p.dilation, p.padding_begin,
                                                     p.padding_end);
    const dnnl::convolution_backward_weights::primitive_desc backward(d, attributes(), engine(), forward);
    plan->primitive = dnnl::convolution_backward_weights(backward);
    plan->scratchpad = backward.scratchpad_desc();
    fill(0, DNNL_ARG_SRC, p.x, backward.src_desc());
    fill(1, DNNL_ARG_DIFF_DST, p.y, backward.diff_dst_desc());
    fill(2, DNNL_ARG_DIFF_WEIGHTS, p.w, backward.diff_weights_desc());
  }
  return plan;
}

using Key = std::vector<std::int64_t>;

Key key_of(ConvDirection direction, const ConvShape& s, const Layout& x, const Layout& y) {
  Key key{static_cast<std::int64_t>(direction), s.spatial, s.n, s.c, s.k, s.groups};
  for (int d = 0; d < s.spatial; ++d) {
    for (std::int64_t v : {s.in[d], s.out[d], s.kernel[d], s.stride[d], s.padding[d], s.dilation[d]}) {
      key.push_back(v);
    }
  }
  for (const Layout* l : {&x, &y}) key.insert(key.end(), l->strides, l->strides + l->rank);
  return key;
}

// Plans stay valid for ever; made with the fixed number of threads, which is part of what they are.
const Plan& plan_for(ConvDirection direction, const ConvShape& s, const Layout& x, const Layout& y) {
  static std::mutex mutex;
  static auto* const plans = new std::map<Key, std::unique_ptr<Plan>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<Plan>& slot = (*plans)[key_of(direction, s, x, y)];
  if (!slot) slot = make_plan(direction, describe(s, x, y));
  return *slot;
}

void reorder(const Plan& plan, int operand, memory& from, memory& to, dnnl::stream& stream) {
  const_dnnl_primitive_desc_t desc = plan.reorders[operand].get_primitive_desc();
  memory scratchpad(memory::desc(*dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0)), engine());
  plan.reorders[operand].execute(
      stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, scratchpad}});
}

void execute(const Plan& plan, const float* a, const float* b, float* result) {
  dnnl::stream stream(engine());
  void* const pointers[] = {const_cast<float*>(a), const_cast<float*>(b), result};
  memory outside[3];
  memory inside[3];
  for (int i = 0; i < 3; ++i) {
    outside[i] = memory(plan.outside[i], engine(), pointers[i]);
    inside[i] = plan.reordered(i) ? memory(plan.inside[i], engine()) : outside[i];
    if (i < 2 && plan.reordered(i)) reorder(plan, i, outside[i], inside[i], stream);
  }
  memory scratchpad(plan.scratchpad, engine());
  plan.primitive.execute(stream, {{plan.arguments[0], inside[0]},
                                  {plan.arguments[1], inside[1]},
                                  {plan.arguments[2], inside[2]},
                                  {DNNL_ARG_SCRATCHPAD, scratchpad}});
  if (plan.reordered(2)) reorder(plan, 2, inside[2], outside[2], stream);
  stream.wait();
}

}  // namespace

void convolve(ConvDirection direction, const ConvShape& shape, const Layout& x, const Layout& y,
              const float* a, const float* b, float* result) {
  with_fixed_threads([&] {
    try {
      execute(plan_for(direction, shape, x, y), a, b, result);
    } catch (const std::exception& e) {  // a kernel has no way to report an error
      std::fprintf(stderr, "softgpu: oneDNN cannot do this convolution: %s\n", e.what());
      std::abort();
    }
  });
}

}  // namespace softgpu::cudnn

// cudnnDropout* and their descriptor.
#include "softgpu/cudnn/ops/dropout.h"

#include <algorithm>

#include "softgpu/cudnn/descriptors/launch.h"
#include "softgpu/cudnn/elements/element_rows.h"
#include "softgpu/cudnn/elements/two_threads.h"

namespace softgpu::cudnn {
namespace {

// The finaliser of SplitMix64 (Steele et al., OOPSLA 2014) over seed and counter.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Uniform in [0, 1), of 24 bits.
float uniform(std::uint64_t seed, std::uint64_t counter) {
  return static_cast<float>(random_bits(seed, counter) >> 40) * 0x1p-24F;
}

void fill_mask(std::uint8_t* mask, std::int64_t elements, const DropoutState& state, float probability) {
  const auto bytes = static_cast<std::int64_t>(mask_bytes(elements));
  in_two(bytes, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      unsigned value = 0;
      for (std::int64_t i = 8 * b; i < std::min(8 * b + 8, elements); ++i) {
        const bool keep = uniform(state.seed, state.counter + static_cast<std::uint64_t>(i)) >= probability;
        value |= (keep ? 1U : 0U) << (i % 8);
      }
      mask[b] = static_cast<std::uint8_t>(value);
    }
  });
}

void apply_mask(std::uint64_t from, const Layout& from_layout, std::uint64_t to, const Layout& to_layout,
                std::uint64_t mask_address, float probability) {
  const float scale = 1.0F / (1.0F - probability);
  const auto* mask = device_memory<const std::uint8_t>(mask_address);
  each_row<2>({from_layout, to_layout}, [&](std::int64_t first, const Row<2>& row) {
    const float* in = device_memory<const float>(from) + row.offsets[0];
    float* out = device_memory(to) + row.offsets[1];
    for (std::int64_t i = 0; i < row.length; ++i) {
      out[i * row.strides[1]] = mask_bit(mask, first + i) ? in[i * row.strides[0]] * scale : 0.0F;
    }
  });
}

std::uint64_t state_bytes(std::int64_t states) {
  return static_cast<std::uint64_t>(states) * sizeof(DropoutState);
}

}  // namespace

void DropoutInitialise::footprint(const Pointers<1>& p, const Args& a, Footprint& out) {
  add_touch(out, p[0], state_bytes(a.states), TouchKind::write);
  out.kind = "dropout";
  out.bytes = static_cast<double>(state_bytes(a.states));
}

void DropoutInitialise::run(const Pointers<1>& p, const Args& a) {
  auto* states = device_memory<DropoutState>(p[0]);
  std::fill(states, states + a.states, DropoutState{a.seed, 0, {}});
}

void DropoutForward::footprint(const Pointers<4>& p, const Args& a, Footprint& out) {
  const std::int64_t count = element_count(a.x);
  add_touch(out, p[0], state_bytes(a.states), TouchKind::read_write);
  add_touches(out, p[1], a.x, TouchKind::read);
  add_touches(out, p[2], a.y, TouchKind::write);
  add_touch(out, p[3], mask_bytes(count), TouchKind::write);
  out.kind = "dropout";
  out.flops = 12 * static_cast<double>(count);
  out.bytes =
      8 * static_cast<double>(count) + static_cast<double>(mask_bytes(count) + 2 * state_bytes(a.states));
}

void DropoutForward::run(const Pointers<4>& p, const Args& a) {
  auto* states = device_memory<DropoutState>(p[0]);
  const std::int64_t count = element_count(a.x);
  fill_mask(device_memory<std::uint8_t>(p[3]), count, states[0], a.probability);
  apply_mask(p[1], a.x, p[2], a.y, p[3], a.probability);
  for (std::int64_t i = 0; i < a.states; ++i) states[i].counter += static_cast<std::uint64_t>(count);
}

void DropoutBackward::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  const std::int64_t count = element_count(a.dy);
  add_touches(out, p[0], a.dy, TouchKind::read);
  add_touch(out, p[2], mask_bytes(count), TouchKind::read);
  add_touches(out, p[1], a.dx, TouchKind::write);
  out.kind = "dropout";
  out.flops = static_cast<double>(count);
  out.bytes = 8 * static_cast<double>(count) + static_cast<double>(mask_bytes(count));
}

void DropoutBackward::run(const Pointers<3>& p, const Args& a) {
  apply_mask(p[0], a.dy, p[1], a.dx, p[2], a.probability);
}

namespace {

// One state per thread that a full device runs.
cudnnStatus_t state_count(const char* function, std::int64_t& count) {
  int device = 0;
  int multiprocessors = 0;
  int threads = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device) != cudaSuccess) {
    return fail(function, CUDNN_STATUS_INTERNAL_ERROR, "the device does not answer");
  }
  count = std::int64_t{multiprocessors} * threads;
  return CUDNN_STATUS_SUCCESS;
}

// What Set and Restore have in common. A descriptor may be set without states; it then serves RNNs only.
cudnnStatus_t set_dropout(const char* function, cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle,
                          float probability, void* states, std::size_t bytes, unsigned long long seed) {
  if (any_null(dropout, handle)) return null_argument(function);
  if (!(probability >= 0.0F && probability < 1.0F)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the probability is not in [0, 1)");
  }
  std::int64_t count = 0;
  if (auto status = state_count(function, count); status != CUDNN_STATUS_SUCCESS) return status;
  if (states && bytes < state_bytes(count)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the states' memory is too small");
  }
  *dropout = {true, probability, states, count, seed};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_dropout(const char* function, const cudnnDropoutStruct* dropout,
                            const cudnnTensorStruct* from, const cudnnTensorStruct* to, const void* in,
                            const void* out, std::size_t mask) {
  if (!dropout) return null_argument(function);
  if (!dropout->set || !dropout->states) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the dropout descriptor has no states");
  }
  if (auto status = check_tensors(function, {from, to}); status != CUDNN_STATUS_SUCCESS) return status;
  if (!same_dims(from->layout, to->layout)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "input and output differ in shape");
  }
  if (in == out && !same_layout(from->layout, to->layout)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "in place needs equal descriptors");
  }
  if (mask < mask_bytes(element_count(from->layout))) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the reserve space is too small");
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu;
using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* dropout) {
  return create_descriptor(__func__, dropout);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t dropout) {
  delete dropout;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, std::size_t* bytes) {
  if (any_null(handle, bytes)) return null_argument(__func__);
  std::int64_t count = 0;
  if (auto status = state_count(__func__, count); status != CUDNN_STATUS_SUCCESS) return status;
  *bytes = state_bytes(count);
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnDropoutGetReserveSpaceSize(cudnnTensorDescriptor_t x_desc,
                                                            std::size_t* bytes) {
  if (any_null(x_desc, bytes)) return null_argument(__func__);
  *bytes = mask_bytes(element_count(x_desc->layout));
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle,
                                                      float probability, void* states, std::size_t bytes,
                                                      unsigned long long seed) {
  auto status = set_dropout(__func__, dropout, handle, probability, states, bytes, seed);
  if (status != CUDNN_STATUS_SUCCESS || !states) return status;
  return launch<DropoutInitialise>(__func__, handle, dropout->state_count, {address(states)},
                                   {dropout->state_count, seed});
}

SOFTGPU_CUDNN cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t dropout,
                                                          cudnnHandle_t handle, float probability,
                                                          void* states, std::size_t bytes,
                                                          unsigned long long seed) {
  return set_dropout(__func__, dropout, handle, probability, states, bytes, seed);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle,
                                                      float* probability, void** states,
                                                      unsigned long long* seed) {
  if (any_null(dropout, handle)) return null_argument(__func__);
  if (probability) *probability = dropout->probability;
  if (states) *states = dropout->states;
  if (seed) *seed = dropout->seed;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnDropoutForward(cudnnHandle_t handle, const cudnnDropoutDescriptor_t dropout,
                                                const cudnnTensorDescriptor_t x_desc, const void* x,
                                                const cudnnTensorDescriptor_t y_desc, void* y, void* mask,
                                                std::size_t mask_size) {
  if (any_null(handle, x, y, mask)) return null_argument(__func__);
  auto status = check_dropout(__func__, dropout, x_desc, y_desc, x, y, mask_size);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const DropoutForward::Args args{x_desc->layout, y_desc->layout, dropout->state_count, dropout->probability};
  return launch<DropoutForward>(__func__, handle, element_count(args.x),
                                {address(dropout->states), address(x), address(y), address(mask)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnDropoutBackward(cudnnHandle_t handle, const cudnnDropoutDescriptor_t dropout,
                                                 const cudnnTensorDescriptor_t dy_desc, const void* dy,
                                                 const cudnnTensorDescriptor_t dx_desc, void* dx, void* mask,
                                                 std::size_t mask_size) {
  if (any_null(handle, dy, dx, mask)) return null_argument(__func__);
  auto status = check_dropout(__func__, dropout, dy_desc, dx_desc, dy, dx, mask_size);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const DropoutBackward::Args args{dy_desc->layout, dx_desc->layout, dropout->probability};
  return launch<DropoutBackward>(__func__, handle, element_count(args.dy),
                                 {address(dy), address(dx), address(mask)}, args);
}

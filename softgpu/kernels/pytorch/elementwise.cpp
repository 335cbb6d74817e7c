// Kernels that apply a functor to each element: native/cuda/CUDALoops.cuh, native/cuda/Loops.cuh and
// native/cuda/RangeFactories.cu.
#include <algorithm>
#include <array>

#include "softgpu/kernels/pytorch/rule.h"
#include "softgpu/meaning.h"

namespace softgpu::pytorch {
namespace {

// What a functor takes and what is in it.
struct Functor {
  std::vector<std::uint32_t> operands;  // bytes of an element: of the result first
  std::uint32_t bytes;                  // of the functor itself
  std::uint32_t scalars, scalar_bytes;  // where in it they are
};

constexpr std::uint32_t empty = 1;  // bytes of a class without members

// What nvcc makes of a lambda with captures ends in a word that nobody sets.
constexpr std::uint32_t closure_bytes(std::uint64_t captures) {
  return static_cast<std::uint32_t>((captures + 7) / 8 * 8 + 8);
}

// Copies to another type, by the lambda's: native/cuda/Copy.cu. 2.15 has one template for all.
std::optional<Functor> conversion_of(std::string_view text, std::uint32_t takes) {
  constexpr std::string_view any = "at::native::converting_copy_kernel_cuda<";
  if (text.starts_with(any)) {
    const auto types = template_arguments(text);
    if (types.size() != 2 || takes == 0 || bytes_of(types[0]) != takes || bytes_of(types[1]) == 0)
      return std::nullopt;
    return Functor{{bytes_of(types[1]), takes}, empty, 0, 0};
  }
  if (takes == 4 && (text.starts_with("at::native::bfloat16_copy_kernel_cuda(") ||
                     text.starts_with("at::native::float16_copy_kernel_cuda(")))
    return Functor{{2, takes}, empty, 0, 0};
  return std::nullopt;
}

// The type T of a lambda that takes nothing but T, so many: "…::{lambda(T, T)#1}".
std::uint32_t lambda_takes(std::string_view text, std::size_t arguments) {
  constexpr std::string_view word = "{lambda(", end = ")#1}";
  const std::size_t at = text.rfind(word);
  if (at == std::string_view::npos || text.size() < at + word.size() + end.size()) return 0;
  std::string_view list = text.substr(at + word.size());
  if (!list.ends_with(end)) return 0;
  list.remove_suffix(end.size());
  const std::string_view type = list.substr(0, list.find(','));
  std::size_t found = 0;
  while (list.starts_with(type)) {
    ++found;
    list.remove_prefix(type.size());
    if (!list.starts_with(", ")) break;
    list.remove_prefix(2);
  }
  return list.empty() && found == arguments ? bytes_of(type) : 0;
}

// Functors that take two numbers; `members`: bytes of theirs, 0 where they have none.
std::optional<std::uint32_t> members_of_pair(std::string_view functor, std::uint32_t element) {
  if (functor.starts_with("at::native::binary_internal::MulFunctor<")) return 0;
  // native/cuda/ActivationThresholdKernel.cu: the threshold and the value
  if (template_name(functor) == "at::native::(anonymous namespace)::threshold_kernel_impl") {
    const auto arguments = template_arguments(functor);
    if (arguments.size() == 1 && bytes_of(arguments[0]) == element) return 2 * element;
  }
  return std::nullopt;
}

std::optional<Functor> of_two(std::string_view text, const std::vector<std::string_view>& arguments) {
  if (arguments.size() != 4) return std::nullopt;
  const std::uint32_t a = bytes_of(arguments[0]), b = bytes_of(arguments[1]), result = bytes_of(arguments[2]);
  const auto members = members_of_pair(arguments[3], a);
  if (a == 0 || b == 0 || result == 0 || !members) return std::nullopt;
  if (text.starts_with("at::native::BinaryFunctor<"))
    return Functor{{result, a, b}, *members == 0 ? empty : closure_bytes(*members), 0, *members};
  // The number that stays is held behind the functor, in the type that it computes in.
  if (*members != 0) return std::nullopt;
  const bool second = text.starts_with("at::native::BUnaryFunctor<");
  const std::uint32_t held = bytes_to_compute(second ? arguments[1] : arguments[0]);
  return Functor{{result, second ? a : b}, 2 * held, held, held};
}

std::optional<Functor> of_template(std::string_view text) {
  const auto arguments = template_arguments(text);
  const std::string_view name = template_name(text);
  if (name == "at::native::BinaryFunctor" || name == "at::native::BUnaryFunctor" ||
      name == "at::native::AUnaryFunctor")
    return of_two(text, arguments);
  if (arguments.size() != 1) return std::nullopt;
  const std::uint32_t bytes = bytes_of(arguments[0]), computed = bytes_to_compute(arguments[0]);
  if (bytes == 0) return std::nullopt;
  if (name == "at::native::FillFunctor") return Functor{{bytes}, bytes, 0, bytes};
  if (name == "at::native::CUDAFunctor_add") return Functor{{bytes, bytes, bytes}, computed, 0, computed};
  if (name == "at::native::CUDAFunctorOnSelf_add")
    return Functor{{bytes, bytes}, 2 * computed, 0, 2 * computed};
  return std::nullopt;
}

std::optional<Functor> functor_of(std::string_view text) {
  if (const auto known = of_template(text)) return known;
  const std::uint32_t one = lambda_takes(text, 1), two = lambda_takes(text, 2), three = lambda_takes(text, 3);
  if (one != 0 && (text.starts_with("at::native::direct_copy_kernel_cuda(") ||
                   text.starts_with("at::native::GeluCUDAKernelImpl(") ||
                   text.starts_with("at::native::reciprocal_kernel_cuda(") ||
                   text.starts_with("at::native::sigmoid_kernel_cuda(") ||
                   text.starts_with("at::native::(anonymous namespace)::silu_kernel(") ||
                   text.starts_with("at::native::sqrt_kernel_cuda(") ||
                   text.starts_with("at::native::(anonymous namespace)::pow_tensor_scalar_kernel_impl<")))
    return Functor{{one, one}, empty, 0, 0};
  if (two != 0 && (text.starts_with("at::native::GeluBackwardCUDAKernelImpl(") ||
                   text.starts_with("at::native::sigmoid_backward_kernel_cuda(") ||
                   text.starts_with("at::native::(anonymous namespace)::silu_backward_kernel(")))
    return Functor{{two, two, two}, empty, 0, 0};
  // native/cuda/PointwiseOpsKernel.cu, Lerp.cu: a factor, in the type that they compute in
  const std::uint32_t factor = std::max(4u, two + three);
  if (three != 0 && (text.starts_with("at::native::addcmul_cuda_kernel(") ||
                     text.starts_with("at::native::addcdiv_cuda_kernel(")))
    return Functor{{three, three, three, three}, closure_bytes(factor), 0, factor};
  if (two != 0 && text.starts_with("at::native::(anonymous namespace)::lerp_scalar_kernel("))
    return Functor{{two, two, two}, closure_bytes(factor), 0, factor};
  if (const auto conversion = conversion_of(text, one)) return conversion;
  // native/cuda/TensorCompare.cu: both limits, as floats, and which of them hold
  if ((one == 4 || one == 2) && text.starts_with("at::native::(anonymous namespace)::launch_clamp_scalar("))
    return Functor{{one, one}, closure_bytes(12), 0, 12};
  return std::nullopt;
}

// native/cuda/TensorCompare.cu: what relu comes to. The only limit is the lower one (the number 0), and is 0.
void add_clip(Footprint& out, std::string_view functor, const Functor& facts, const void* at,
              std::uint64_t elements) {
  constexpr std::uint8_t zeros[12] = {};
  if (!functor.starts_with("at::native::(anonymous namespace)::launch_clamp_scalar(") ||
      std::memcmp(at, zeros, sizeof zeros) != 0)
    return;
  out.stages = {{clip_identity(elements, facts.operands[0], /*keeps_nan=*/true), {1}, {0}}};
}

void hash_functor(Hash& hash, const Functor& functor, const void* at) {
  hash.add_bytes(static_cast<const char*>(at) + functor.scalars, functor.scalar_bytes);
}

// The lambda in gpu_kernel_impl_nocast: the offsets, the operands' addresses, the functor.
template <int operands>
bool strided(const KernelLaunch& launch, const Functor& functor, Footprint& out) {
  struct Closure {
    Offsets<operands> offsets;
    std::uint64_t addresses[operands];
  };
  if (!sizes_are(launch, {4, closure_bytes(sizeof(Closure) + functor.bytes)})) return false;
  const auto closure = parameter<Closure>(launch, 1);
  if (!closure.offsets.well() || closure.offsets.elements() != parameter<std::uint32_t>(launch, 0))
    return false;
  for (int i = 0; i < operands; ++i) {
    if (!touch_strided(out, closure.addresses[i], closure.offsets.of(i),
                       functor.operands[static_cast<std::size_t>(i)],
                       i == 0 ? TouchKind::write : TouchKind::read))
      return false;
  }
  Hash hash;
  closure.offsets.add_to(hash);
  hash_functor(hash, functor, static_cast<const char*>(launch.params[1]) + sizeof(Closure));
  out.scalars = hash.value();
  return true;
}

}  // namespace

// <width, functor, array>, in 2.15 with how much a thread does: (int elements, functor, std::array<char*,
// operands>)
bool vectorized_elementwise(const KernelLaunch& launch, Footprint& out) {
  const auto arguments = template_arguments(launch.name);
  if (arguments.size() != 3 && arguments.size() != 4) return false;
  const auto functor = functor_of(arguments[1]);
  if (!functor) return false;
  const auto operands = static_cast<std::uint32_t>(functor->operands.size());
  if (!sizes_are(launch, {4, functor->bytes, 8 * operands})) return false;
  const auto elements = parameter<std::uint32_t>(launch, 0);
  for (std::uint32_t i = 0; i < operands; ++i) {
    std::uint64_t address;
    std::memcpy(&address, static_cast<const char*>(launch.params[2]) + 8 * i, sizeof address);
    touch(out, address, std::uint64_t{elements} * functor->operands[i],
          i == 0 ? TouchKind::write : TouchKind::read);
  }
  Hash hash(elements);
  hash_functor(hash, *functor, launch.params[1]);
  out.scalars = hash.value();
  add_clip(out, arguments[1], *functor, launch.params[1], elements);
  return true;
}

// (int elements, the lambda of gpu_kernel_impl_nocast<functor>)
bool strided_elementwise(const KernelLaunch& launch, Footprint& out) {
  const auto arguments = template_arguments(launch.name);
  constexpr std::string_view maker = "at::native::gpu_kernel_impl_nocast<";
  if (arguments.size() != 3 || !arguments[2].starts_with(maker)) return false;
  const auto of_maker = template_arguments(arguments[2]);
  const auto functor = of_maker.size() == 1 ? functor_of(of_maker[0]) : std::nullopt;
  if (!functor) return false;
  switch (functor->operands.size()) {
    case 1:
      return strided<1>(launch, *functor, out);
    case 2:
      return strided<2>(launch, *functor, out);
    case 3:
      return strided<3>(launch, *functor, out);
    default:
      return false;
  }
}

// (int elements, functor, std::array<char*, operands>, offsets of inputs, of the result,
// LoadWithCast<inputs>, StoreWithCast<1>): memory holds other types than the functor takes, each a number and
// its bytes.
bool casting_elementwise(const KernelLaunch& launch, Footprint& out) {
  constexpr std::string_view trivial = "TrivialOffsetCalculator<";
  const auto arguments = template_arguments(launch.name);
  if (arguments.size() != 7 || !arguments[3].starts_with(trivial) || !arguments[4].starts_with(trivial) ||
      template_name(arguments[5]) != "at::native::memory::LoadWithCast" ||
      arguments[6] != "at::native::memory::StoreWithCast<1>")
    return false;
  const auto functor = functor_of(arguments[0]);
  if (!functor || functor->operands.size() < 2) return false;
  const auto operands = static_cast<std::uint32_t>(functor->operands.size()), inputs = operands - 1;
  const std::uint32_t sizes_at = (inputs + 3) / 4 * 4;
  if (!sizes_are(launch, {4, functor->bytes, 8 * operands, 1, 1, sizes_at + 4 * inputs, 8})) return false;
  const auto elements = parameter<std::uint32_t>(launch, 0);
  Hash hash(elements);
  hash_functor(hash, *functor, launch.params[1]);
  for (std::uint32_t i = 0; i < operands; ++i) {
    const auto* const casts = static_cast<const char*>(launch.params[i == 0 ? 6 : 5]);
    const std::uint32_t input = i == 0 ? 0 : i - 1;
    std::uint32_t bytes;
    std::memcpy(&bytes, casts + (i == 0 ? 4 : sizes_at) + 4 * input, sizeof bytes);
    std::uint64_t address;
    std::memcpy(&address, static_cast<const char*>(launch.params[2]) + 8 * i, sizeof address);
    if (bytes == 0 || bytes > 16) return false;
    touch(out, address, std::uint64_t{elements} * bytes, i == 0 ? TouchKind::write : TouchKind::read);
    hash.add_bytes(casts + input, 1).add(bytes);
  }
  out.scalars = hash.value();
  return true;
}

// (int elements, functor, result*), of arange for 64-bit numbers: where it starts and its step
bool indexed_elementwise(const KernelLaunch& launch, Footprint& out) {
  constexpr std::string_view arange =
      "at::native::arange_cuda_out(c10::Scalar const&, c10::Scalar const&, c10::Scalar const&, "
      "at::Tensor&)::{lambda()#1}::operator()() const::{lambda()#4}::operator()() const::{lambda(long)#1}";
  const auto arguments = template_arguments(launch.name);
  if (arguments.size() != 2 || arguments[1] != arange || !sizes_are(launch, {4, closure_bytes(16), 8}))
    return false;
  const auto elements = parameter<std::uint32_t>(launch, 0);
  touch(out, parameter<std::uint64_t>(launch, 2), std::uint64_t{elements} * 8, TouchKind::write);
  out.scalars = Hash(elements).add_bytes(launch.params[1], 16).value();
  return true;
}

}  // namespace softgpu::pytorch

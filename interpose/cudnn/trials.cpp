#include "interpose/cudnn/trials.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/hash.h"
#include "interpose/cudnn/facts.h"
#include "interpose/cudnn/text.h"
#include "interpose/sessions/configuration.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cudnn, cudnnFindConvolutionForwardAlgorithm);
POOCH_REAL(cudnn, cudnnFindConvolutionBackwardDataAlgorithm);
POOCH_REAL(cudnn, cudnnFindConvolutionBackwardFilterAlgorithm);

std::string_view name_of(cudnnConvolutionFwdAlgo_t algorithm) {
  switch (algorithm) {
    case CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM:
      return "implicit_gemm";
    case CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM:
      return "implicit_precomp_gemm";
    case CUDNN_CONVOLUTION_FWD_ALGO_GEMM:
      return "gemm";
    case CUDNN_CONVOLUTION_FWD_ALGO_DIRECT:
      return "direct";
    case CUDNN_CONVOLUTION_FWD_ALGO_FFT:
      return "fft";
    case CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING:
      return "fft_tiling";
    case CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD:
      return "winograd";
    case CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED:
      return "winograd_nonfused";
    default:
      return "";
  }
}

std::string_view name_of(cudnnConvolutionBwdDataAlgo_t algorithm) {
  switch (algorithm) {
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_0:
      return "algo_0";
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_1:
      return "algo_1";
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT:
      return "fft";
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING:
      return "fft_tiling";
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD:
      return "winograd";
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED:
      return "winograd_nonfused";
    default:
      return "";
  }
}

std::string_view name_of(cudnnConvolutionBwdFilterAlgo_t algorithm) {
  switch (algorithm) {
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0:
      return "algo_0";
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1:
      return "algo_1";
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT:
      return "fft";
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3:
      return "algo_3";
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD:
      return "winograd";
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED:
      return "winograd_nonfused";
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING:
      return "fft_tiling";
    default:
      return "";
  }
}

// One algorithm with another math type is another algorithm.
template <class Algo>
std::string name_of(Algo algorithm, cudnnMathType_t math) {
  std::string name(name_of(algorithm));
  if (name.empty()) name = "number " + std::to_string(static_cast<int>(algorithm));
  if (math == CUDNN_TENSOR_OP_MATH) name += " tensor_op";
  if (math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) name += " tensor_op_conversion";
  if (math == CUDNN_FMA_MATH) name += " fma";
  return name;
}

constexpr OpKind kind_of(cudnnConvolutionFwdAlgo_t) {
  return OpKind::conv_forward;
}
constexpr OpKind kind_of(cudnnConvolutionBwdDataAlgo_t) {
  return OpKind::conv_backward_data;
}
constexpr OpKind kind_of(cudnnConvolutionBwdFilterAlgo_t) {
  return OpKind::conv_backward_filter;
}

// Equal for convolutions that share their trials; 0: cuDNN does not say enough.
struct Form {
  std::uint64_t key = 0;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

Form form_of(const Scope& scope, OpKind kind, const Convolution& of) {
  Form form;
  ConvolutionText text;
  if (!text.read(scope, of.by)) return form;
  form.math = text.math;
  std::uint64_t key = mix(static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(text.mode));
  for (const int one : {text.rank, text.groups, static_cast<int>(text.type)})
    key = mix(key, static_cast<std::uint64_t>(one));
  for (const auto* extents : {&text.padding, &text.stride, &text.dilation})
    for (const std::int32_t one : *extents) key = mix(key, static_cast<std::uint64_t>(one));
  for (const std::uint64_t traits : {tensor_extent(scope, of.x).traits, filter_extent(scope, of.w).traits,
                                     tensor_extent(scope, of.y).traits}) {
    if (traits == 0) return form;
    key = mix(key, traits);
  }
  form.key = key;
  return form;
}

// Everything that was tried. A leaf.
class AllTrials {
 public:
  void add(std::uint64_t form, std::vector<Algorithm> found) {
    const std::lock_guard lock(mutex_);
    const auto [place, fresh] = index_of_.try_emplace(form, trials_.size());
    if (fresh) trials_.emplace_back();
    std::vector<Algorithm>& known = trials_[place->second].algorithms;
    for (Algorithm& one : found) {
      const auto same = find(known, one.name);
      if (same == known.end())
        known.push_back(std::move(one));
      else
        *same = std::move(one);
    }
  }

  TriedAlgorithm find(std::uint64_t form, std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto place = index_of_.find(form);
    if (place == index_of_.end()) return {};
    std::vector<Algorithm>& known = trials_[place->second].algorithms;
    const auto found = find(known, name);
    return {place->second + 1,
            found == known.end() ? 0 : static_cast<std::uint32_t>(found - known.begin() + 1)};
  }

  std::vector<Trials> all() const {
    const std::lock_guard lock(mutex_);
    return trials_;
  }
  bool none() const {
    const std::lock_guard lock(mutex_);
    return trials_.empty();
  }

 private:
  static std::vector<Algorithm>::iterator find(std::vector<Algorithm>& in, std::string_view name) {
    return std::find_if(in.begin(), in.end(), [&](const Algorithm& one) { return one.name == name; });
  }

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_of_;  // by form
  std::vector<Trials> trials_;                                 // ops name them and their parts by index
};

// Never destroyed: calls may come after this library's destructors.
AllTrials& all_trials() {
  static AllTrials* const all = new AllTrials;
  return *all;
}

}  // namespace

namespace pooch::interpose {

template <class Performance>
void note_trials(const Scope& scope, const Convolution& of, int count, const Performance* results) {
  if (count <= 0 || results == nullptr) return;
  std::vector<Algorithm> found;
  for (int i = 0; i < count; ++i) {
    const Performance& one = results[i];
    if (one.status != CUDNN_STATUS_SUCCESS || !(one.time >= 0)) continue;
    found.push_back({name_of(one.algo, one.mathType), 1e3 * static_cast<double>(one.time), one.memory});
  }
  const Form form = found.empty() ? Form{} : form_of(scope, kind_of(results->algo), of);
  if (form.key != 0) all_trials().add(form.key, std::move(found));
}

template <class Algo>
TriedAlgorithm tried(const Scope& scope, const Convolution& of, Algo algorithm) {
  if (all_trials().none()) return {};
  const Form form = form_of(scope, kind_of(algorithm), of);
  if (form.key == 0) return {};
  const TriedAlgorithm exact = all_trials().find(form.key, name_of(algorithm, form.math));
  if (exact.algorithm != 0) return exact;
  // Results that name no math type were tried with the descriptor's own.
  return all_trials().find(form.key, name_of(algorithm, CUDNN_DEFAULT_MATH));
}

template void note_trials(const Scope&, const Convolution&, int, const cudnnConvolutionFwdAlgoPerf_t*);
template void note_trials(const Scope&, const Convolution&, int, const cudnnConvolutionBwdDataAlgoPerf_t*);
template void note_trials(const Scope&, const Convolution&, int, const cudnnConvolutionBwdFilterAlgoPerf_t*);
template TriedAlgorithm tried(const Scope&, const Convolution&, cudnnConvolutionFwdAlgo_t);
template TriedAlgorithm tried(const Scope&, const Convolution&, cudnnConvolutionBwdDataAlgo_t);
template TriedAlgorithm tried(const Scope&, const Convolution&, cudnnConvolutionBwdFilterAlgo_t);

void describe_trials(Profile& profile) {
  const auto tried_any = [](const PhaseProfile& phase) {
    return std::any_of(phase.ops.begin(), phase.ops.end(),
                       [](const ProfileOp& op) { return op.trials != 0; });
  };
  if (std::any_of(profile.phases.begin(), profile.phases.end(), tried_any))
    profile.trials = all_trials().all();
}

}  // namespace pooch::interpose

namespace {

// cuDNN tries in memory of its own, and what it allocates and launches for that is seen at the driver: so no
// scope is open while it works.
template <class Function, class Performance, class... Arguments>
cudnnStatus_t find_and_note(Real<Function>& real, const Convolution& of, int* count, Performance* results,
                            Arguments... arguments) {
  Function* const find = [&] {
    const Scope scope;
    return real.get(scope);
  }();
  if (find == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const cudnnStatus_t status = find(arguments..., count, results);
  const Scope scope;
  if (status == CUDNN_STATUS_SUCCESS && scope.outermost() && configuration() != nullptr)
    note_trials(scope, of, *count, results);
  return status;
}

}  // namespace

POOCH_EXPORT cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t yDesc,
    const int requestedAlgoCount, int* returnedAlgoCount, cudnnConvolutionFwdAlgoPerf_t* perfResults) {
  return find_and_note(real_cudnnFindConvolutionForwardAlgorithm, {xDesc, wDesc, convDesc, yDesc},
                       returnedAlgoCount, perfResults, handle, xDesc, wDesc, convDesc, yDesc,
                       requestedAlgoCount);
}

POOCH_EXPORT cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc,
    const int requestedAlgoCount, int* returnedAlgoCount, cudnnConvolutionBwdDataAlgoPerf_t* perfResults) {
  return find_and_note(real_cudnnFindConvolutionBackwardDataAlgorithm, {dxDesc, wDesc, convDesc, dyDesc},
                       returnedAlgoCount, perfResults, handle, wDesc, dyDesc, convDesc, dxDesc,
                       requestedAlgoCount);
}

POOCH_EXPORT cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t dwDesc,
    const int requestedAlgoCount, int* returnedAlgoCount, cudnnConvolutionBwdFilterAlgoPerf_t* perfResults) {
  return find_and_note(real_cudnnFindConvolutionBackwardFilterAlgorithm, {xDesc, dwDesc, convDesc, dyDesc},
                       returnedAlgoCount, perfResults, handle, xDesc, dyDesc, convDesc, dwDesc,
                       requestedAlgoCount);
}

// threads_program THREADS ITERATIONS ordered|loose [SEED]: a chain of layers that THREADS threads train, each
// of them its own part of the layers, in a stream and with handles of its own. They take turns, thread by
// thread forward and back again; "loose" lets them update their weights in any order. Beside their turns they
// read their weights back and use memory of their own. SEED: they dawdle at random. Prints a hash of all that
// each thread's weights were.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "ok.h"

namespace {

constexpr std::size_t bytes = std::size_t{2} << 20, count = bytes / sizeof(float);
constexpr int layers = 16;

// Whose turn it is. Turns are numbered through all iterations.
class Turns {
 public:
  void await(std::uint64_t turn) {
    std::unique_lock lock(mutex_);
    passed_.wait(lock, [&] { return now_ == turn; });
  }
  void pass() {
    const std::lock_guard lock(mutex_);
    ++now_;
    passed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable passed_;
  std::uint64_t now_ = 0;
};

class Dawdler {
 public:
  // Seed 0: never.
  Dawdler(unsigned seed, int thread)
      : dawdles_(seed != 0), random_(seed * 64 + static_cast<unsigned>(thread)) {}
  void dawdle() {
    if (!dawdles_) return;
    const unsigned dice = random_() % 16;
    if (dice < 6) std::this_thread::yield();
    if (dice == 6) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
  }

 private:
  bool dawdles_;
  std::mt19937 random_;
};

struct Layer {
  float* weights = nullptr;
  float *product = nullptr, *output = nullptr;  // of this iteration
};

// What the threads share. Each layer belongs to one of them.
struct Chain {
  std::vector<Layer> all{layers};
  float *input = nullptr, *target = nullptr;
  float* gradient = nullptr;      // that travels back
  std::vector<cudaEvent_t> done;  // by thread: its latest turn
  Turns turns, updates;
};

class Worker {
 public:
  Worker(Chain& chain, int number, int threads, bool loose, unsigned seed)
      : chain_(chain), number_(number), threads_(threads), loose_(loose), dawdler_(seed, number) {
    OK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    OK(cudnnCreate(&dnn_));
    OK(cudnnSetStream(dnn_, stream_));
    OK(cublasCreate(&blas_));
    OK(cublasSetStream(blas_, stream_));
    OK(cudnnCreateTensorDescriptor(&vector_));
    OK(cudnnSetTensor4dDescriptor(vector_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 512, count / 512));
    OK(cudnnCreateOpTensorDescriptor(&multiply_));
    OK(cudnnSetOpTensorDescriptor(multiply_, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
    OK(cudnnCreateOpTensorDescriptor(&add_));
    OK(cudnnSetOpTensorDescriptor(add_, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
    OK(cudnnCreateActivationDescriptor(&relu_));
    OK(cudnnSetActivationDescriptor(relu_, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
    const int share = layers / threads;
    for (int layer = number * share; layer < (number + 1) * share; ++layer) {
      mine_.push_back(layer);
      chain.all[layer].weights = filled(0.75F + 0.03125F * static_cast<float>(layer));
    }
    if (number == 0) chain.input = filled(1);
    if (number == 0) chain.target = filled(0.5F);
  }

  void run(int iterations) {
    for (int iteration = 0; iteration < iterations; ++iteration) {
      const std::uint64_t first = std::uint64_t{2} * threads_ * iteration;
      turn(first + number_, number_ == 0 ? 0 : number_ - 1, [&] { forward(); });
      turn(first + 2 * threads_ - 1 - number_, number_ == threads_ - 1 ? number_ : number_ + 1,
           [&] { backward(); });
      if (loose_) update();
      beside(iteration);
      if (loose_) everybody(iteration);
    }
    OK(cudaStreamSynchronize(stream_));
  }

  void print() const { std::printf("thread %d: %016llx\n", number_, static_cast<unsigned long long>(hash_)); }

 private:
  template <class Work>
  void turn(std::uint64_t number, int after, Work&& work) {
    chain_.turns.await(number);
    dawdler_.dawdle();
    if (after != number_) OK(cudaStreamWaitEvent(stream_, chain_.done[after], 0));
    work();
    OK(cudaEventRecord(chain_.done[number_], stream_));
    chain_.turns.pass();
    dawdler_.dawdle();
  }
  // Until all threads have come so far.
  void everybody(int iteration) {
    chain_.updates.await(std::uint64_t{1} * threads_ * iteration + number_);
    chain_.updates.pass();
    if (number_ != 0) return;
    chain_.updates.await(std::uint64_t{1} * threads_ * (iteration + 1));
  }

  float* allocate() {
    void* memory = nullptr;
    OK(cudaMallocAsync(&memory, bytes, stream_));
    return static_cast<float*>(memory);
  }
  void free(float* memory) { OK(cudaFreeAsync(memory, stream_)); }
  float* filled(float first) {
    std::vector<float> content(count);
    for (std::size_t i = 0; i < count; ++i) content[i] = first + static_cast<float>(i % 61) / 256;
    float* const memory = allocate();
    OK(cudaMemcpyAsync(memory, content.data(), bytes, cudaMemcpyHostToDevice, stream_));
    OK(cudaStreamSynchronize(stream_));
    return memory;
  }
  // to = a op factor * b
  void combine(cudnnOpTensorDescriptor_t op, const float* a, float factor, const float* b, float* to) {
    const float one = 1, zero = 0;
    OK(cudnnOpTensor(dnn_, op, &one, vector_, a, &factor, vector_, b, &zero, vector_, to));
    dawdler_.dawdle();
  }

  void forward() {
    const float one = 1, zero = 0;
    for (const int layer : mine_) {
      Layer& l = chain_.all[layer];
      l.product = allocate();
      combine(multiply_, input_of(layer), 1, l.weights, l.product);
      l.output = allocate();
      OK(cudnnActivationForward(dnn_, relu_, &one, vector_, l.product, &zero, vector_, l.output));
      dawdler_.dawdle();
    }
  }
  void backward() {
    const float one = 1, zero = 0, rate = -1.0F / 1024;
    if (number_ == threads_ - 1) {
      chain_.gradient = allocate();
      combine(add_, chain_.all.back().output, -1, chain_.target, chain_.gradient);
    }
    for (auto layer = mine_.rbegin(); layer != mine_.rend(); ++layer) {
      Layer& l = chain_.all[*layer];
      float* const inner = allocate();
      OK(cudnnActivationBackward(dnn_, relu_, &one, vector_, l.output, vector_, chain_.gradient, vector_,
                                 l.product, &zero, vector_, inner));
      free(l.output), free(l.product), free(chain_.gradient);
      float* const of_weights = allocate();
      combine(multiply_, inner, 1, input_of(*layer), of_weights);
      chain_.gradient = allocate();
      combine(multiply_, inner, 1, l.weights, chain_.gradient);
      free(inner);
      if (loose_) {
        gradients_.push_back(of_weights);
        continue;
      }
      OK(cublasSaxpy(blas_, static_cast<int>(count), &rate, of_weights, 1, l.weights, 1));
      free(of_weights);
    }
    if (number_ == 0) free(chain_.gradient);
  }
  void update() {
    const float rate = -1.0F / 1024;
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      dawdler_.dawdle();
      float* const weights = chain_.all[mine_[mine_.size() - 1 - i]].weights;
      OK(cublasSaxpy(blas_, static_cast<int>(count), &rate, gradients_[i], 1, weights, 1));
      free(gradients_[i]);
    }
    gradients_.clear();
  }
  float* input_of(int layer) const { return layer == 0 ? chain_.input : chain_.all[layer - 1].output; }

  // While the other threads have their turns.
  void beside(int iteration) {
    std::vector<float> host(count, static_cast<float>(iteration));
    float* const own = allocate();
    OK(cudaMemcpyAsync(own, host.data(), bytes, cudaMemcpyHostToDevice, stream_));
    dawdler_.dawdle();
    OK(cudaMemcpyAsync(host.data(), own, bytes, cudaMemcpyDeviceToHost, stream_));
    OK(cudaStreamSynchronize(stream_));
    add_to_hash(host);
    free(own);
    for (const int layer : mine_) {
      dawdler_.dawdle();
      OK(cudaMemcpyAsync(host.data(), chain_.all[layer].weights, bytes, cudaMemcpyDeviceToHost, stream_));
      OK(cudaStreamSynchronize(stream_));
      add_to_hash(host);
    }
  }
  void add_to_hash(const std::vector<float>& values) {
    const auto* const words = reinterpret_cast<const std::uint64_t*>(values.data());
    for (std::size_t i = 0; i < bytes / sizeof *words; ++i) hash_ = (hash_ ^ words[i]) * 0x100000001b3;
  }

  Chain& chain_;
  const int number_, threads_;
  const bool loose_;
  Dawdler dawdler_;
  std::vector<int> mine_;
  std::vector<float*> gradients_;  // of an iteration whose updates are loose
  cudaStream_t stream_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  cudnnTensorDescriptor_t vector_ = nullptr;
  cudnnOpTensorDescriptor_t multiply_ = nullptr, add_ = nullptr;
  cudnnActivationDescriptor_t relu_ = nullptr;
  std::uint64_t hash_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 3 ? std::atoi(argv[1]) : 0, iterations = argc > 3 ? std::atoi(argv[2]) : 0;
  if (threads < 1 || layers % threads != 0) return 2;
  const bool loose = argv[3] == std::string_view("loose");
  const auto seed = static_cast<unsigned>(argc > 4 ? std::atoi(argv[4]) : 0);
  Chain chain;
  chain.done.resize(threads);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int number = 0; number < threads; ++number) {
    OK(cudaEventCreateWithFlags(&chain.done[number], cudaEventDisableTiming));
    workers.push_back(std::make_unique<Worker>(chain, number, threads, loose, seed));
  }
  std::vector<std::thread> running;
  for (const auto& worker : workers) running.emplace_back([&] { worker->run(iterations); });
  for (std::thread& thread : running) thread.join();
  for (const auto& worker : workers) worker->print();
  std::printf("done\n");
  return 0;
}

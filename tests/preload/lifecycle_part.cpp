// The CUDA part of a program, as a shared library: `run_scenario(NAME)` does work that is checked word by
// word and prints what came out. Kernels are images of the software GPU; everything else is plain CUDA.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "softgpu/image.h"

namespace {

// Threads that are still at work while the process ends get errors, and keep quiet about them.
std::atomic<bool> ending{false};

[[noreturn]] void fail(const char* what, int status) {
  while (ending) pause();
  std::fprintf(stderr, "not so: %s (%d)\n", what, status);
  _exit(1);
}
#define EXPECT_OK(call)                                         \
  do {                                                          \
    if (const int status = (call); status) fail(#call, status); \
  } while (false)
#define EXPECT(condition) ((condition) ? void() : fail(#condition, 0))

// --- kernels: fill(to, words, value) and mix(to, from, words): to = 3 * to + from

using Word = std::uint32_t;
using softgpu::TouchKind;

template <class T>
T parameter(const void* const* all, int which) {
  return *static_cast<const T*>(all[which]);
}
void fill_footprint(const void* const* p, softgpu::Footprint& out) {
  out.bytes = static_cast<double>(parameter<std::uint64_t>(p, 1) * sizeof(Word));
  out.touches.push_back(
      {parameter<std::uint64_t>(p, 0), parameter<std::uint64_t>(p, 1) * sizeof(Word), TouchKind::write});
}
void fill_run(const void* const* p) {
  auto* const to = parameter<Word*>(p, 0);
  for (std::uint64_t i = 0; i < parameter<std::uint64_t>(p, 1); ++i) to[i] = parameter<Word>(p, 2);
}
void mix_footprint(const void* const* p, softgpu::Footprint& out) {
  const std::uint64_t bytes = parameter<std::uint64_t>(p, 2) * sizeof(Word);
  out.bytes = static_cast<double>(3 * bytes);
  out.touches.push_back({parameter<std::uint64_t>(p, 0), bytes, TouchKind::read_write});
  out.touches.push_back({parameter<std::uint64_t>(p, 1), bytes, TouchKind::read});
}
void mix_run(const void* const* p) {
  auto* const to = parameter<Word*>(p, 0);
  const auto* const from = parameter<const Word*>(p, 1);
  for (std::uint64_t i = 0; i < parameter<std::uint64_t>(p, 2); ++i) to[i] = 3 * to[i] + from[i];
}
constexpr std::uint32_t three_words[] = {8, 8, 8};
constexpr softgpu::KernelEntry entries[] = {{"fill", three_words, 3, fill_footprint, fill_run},
                                            {"mix", three_words, 3, mix_footprint, mix_run}};
constexpr softgpu::Image image{softgpu::image_magic, 2, entries};

// At the first call that needs one, on whatever thread that is.
CUkernel kernel(const char* name) {
  static std::once_flag once;
  static CUlibrary library;
  std::call_once(once, [] {
    EXPECT_OK(cudaFree(nullptr));  // the runtime makes the context
    EXPECT_OK(cuLibraryLoadData(&library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  });
  EXPECT_OK(cudaSetDevice(0));
  CUkernel found = nullptr;
  EXPECT_OK(cuLibraryGetKernel(&found, library, name));
  return found;
}

void launch(const char* name, cudaStream_t stream, void** parameters) {
  EXPECT_OK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel(name)), 64, 1, 1, 64, 1, 1, 0, stream,
                           parameters, nullptr));
}

// --- buffers. All words of one are equal, so that a number on the host can follow what happens to it.

constexpr std::uint64_t words =
    3 * 256 * 1024;  // 3 MiB: pooch's business, and not a whole number of its chunks

class Buffers {
 public:
  explicit Buffers(int count) : memory_(count), expected_(count) {
    for (Word*& one : memory_) EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&one), words * sizeof(Word)));
  }
  int count() const { return static_cast<int>(memory_.size()); }

  // By the driver, so that everybody knows what is touched.
  void set(int which, Word value, cudaStream_t stream) {
    EXPECT_OK(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(memory_[which]), value, words, stream));
    expected_[which] = value;
  }
  void fill(int which, Word value, cudaStream_t stream) {
    std::uint64_t size = words, wide = value;
    void* parameters[] = {&memory_[which], &size, &wide};
    launch("fill", stream, parameters);
    expected_[which] = value;
  }
  void mix(int to, int from, cudaStream_t stream) {
    std::uint64_t size = words;
    void* parameters[] = {&memory_[to], &memory_[from], &size};
    launch("mix", stream, parameters);
    expected_[to] = 3 * expected_[to] + expected_[from];
  }
  // What the buffer holds, all of it.
  Word read(int which, cudaStream_t stream) {
    std::vector<Word> host(words);
    EXPECT_OK(
        cudaMemcpyAsync(host.data(), memory_[which], words * sizeof(Word), cudaMemcpyDeviceToHost, stream));
    EXPECT_OK(cudaStreamSynchronize(stream));
    for (const Word word : host)
      if (word != expected_[which]) fail("a buffer holds what was computed", static_cast<int>(word));
    return host[0];
  }
  void release() {
    for (Word* one : memory_) EXPECT_OK(cudaFree(one));
    memory_.clear();
  }

 private:
  std::vector<Word*> memory_;
  std::vector<Word> expected_;
};

void fill_all(Buffers& buffers, Word seed, cudaStream_t stream) {
  for (int i = 0; i < buffers.count(); ++i) buffers.fill(i, seed * 1000 + static_cast<Word>(i), stream);
}

void mix_all(Buffers& buffers, int rounds, cudaStream_t stream) {
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < buffers.count(); ++i) buffers.mix(i, (i + 1) % buffers.count(), stream);
}

Word read_all(Buffers& buffers, cudaStream_t stream) {
  Word sum = 0;
  for (int i = 0; i < buffers.count(); ++i) sum = sum * 31 + buffers.read(i, stream);
  return sum;
}

Word work(Word seed, cudaStream_t stream) {
  Buffers buffers(6);
  fill_all(buffers, seed, stream);
  mix_all(buffers, 2, stream);
  const Word sum = read_all(buffers, stream);
  buffers.release();
  return sum;
}

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// --- threads

template <class Body>
void on_threads(int count, Body&& body) {
  std::barrier together(count);
  std::vector<Word> sums(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      together.arrive_and_wait();
      sums[i] = body(static_cast<Word>(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < count; ++i) std::printf("thread %d: %08x\n", i, sums[i]);
}

int first_calls() {
  on_threads(8, [](Word i) { return work(i, nullptr); });
  return 0;
}

int eight_streams() {
  for (int time = 0; time < 2; ++time) {
    on_threads(8, [](Word i) {
      cudaStream_t const stream = new_stream();
      const Word sum = work(i, stream);
      EXPECT_OK(cudaStreamDestroy(stream));
      return sum;
    });
  }
  return 0;
}

// --- processes

int wait_for(pid_t child) {
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

template <class Body>
pid_t in_child(Body&& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) body();
  return child;
}

int fork_before() {
  const pid_t child = in_child([] {
    std::printf("child: %08x\n", work(1, nullptr));
    std::exit(3);
  });
  std::printf("child ended with %d\n", wait_for(child));
  std::printf("parent: %08x\n", work(2, nullptr));
  return 0;
}

int fork_after() {
  Buffers buffers(6);
  fill_all(buffers, 5, nullptr);
  std::atomic<bool> enough{false};
  std::thread busy([&] {
    for (cudaStream_t const stream = new_stream(); !enough;) work(9, stream);
  });
  for (int i = 0; i < 4; ++i)
    std::printf("child ended with %d\n", wait_for(in_child([i] { std::exit(20 + i); })));
  // The driver does not promise a child anything, but it may ask.
  const pid_t asking = in_child([] {
    void* memory = nullptr;
    (void)cudaMalloc(&memory, 8 << 20);
    (void)cudaFree(memory);
    std::exit(30);
  });
  enough = true;
  busy.join();
  std::printf("child ended with %d\n", wait_for(asking));
  std::printf("child ended with %d\n", wait_for(in_child([] { _exit(31); })));
  mix_all(buffers, 2, nullptr);
  std::printf("parent: %08x\n", read_all(buffers, nullptr));
  return 0;
}

int exec_again() {
  std::printf("before: %08x\n", work(3, nullptr));
  std::fflush(nullptr);
  char program[] = "/proc/self/exe", scenario[] = "first_calls";
  char* arguments[] = {program, scenario, nullptr};
  execv(program, arguments);
  fail("execv", 0);
}

// --- ends

int exit_without_cleanup() {
  static Buffers buffers(6);
  cudaStream_t const stream = new_stream();
  fill_all(buffers, 1, stream);
  mix_all(buffers, 1, stream);
  std::printf("going\n");
  std::exit(5);
}

int exit_at_once() {
  std::printf("%08x\n", work(1, nullptr));
  std::fflush(nullptr);
  _exit(6);
}

int exit_while_working() {
  static std::atomic<int> done{0};
  for (Word i = 0; i < 4; ++i) {
    std::thread([i] {
      for (cudaStream_t const stream = new_stream();; ++done) work(i, stream);
    }).detach();
  }
  while (done < 8) std::this_thread::yield();
  std::printf("going\n");
  ending = true;
  std::exit(4);
}

std::atomic<bool> told_to_end{false};

int until_terminated() {
  cudaStream_t const stream = new_stream();
  work(1, stream);
  std::printf("working\n");
  std::fflush(nullptr);
  while (!told_to_end) work(1, stream);
  std::printf("ended\n");
  return 0;
}

int until_terminated_politely() {
  std::signal(SIGTERM, [](int) { told_to_end = true; });
  return until_terminated();
}

// --- streams that wait for each other and for the program

struct HostLog {
  std::mutex mutex;
  std::vector<int> entries;
};
struct Entry {
  HostLog* log;
  int number;
};
void append(void* data) {
  const auto* const entry = static_cast<Entry*>(data);
  const std::lock_guard lock(entry->log->mutex);
  entry->log->entries.push_back(entry->number);
}

// One stream fills, a second mixes behind an event, a third waits for a value that the second writes.
int ordered_streams() {
  Buffers buffers(10);
  const std::array<cudaStream_t, 3> streams{new_stream(), new_stream(), new_stream()};
  cudaEvent_t filled, read;
  EXPECT_OK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  EXPECT_OK(cudaEventCreateWithFlags(&read, cudaEventDisableTiming));
  Word* flag = nullptr;
  EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&flag), sizeof(Word)));
  EXPECT_OK(cudaMemset(flag, 0, sizeof(Word)));
  EXPECT_OK(cudaDeviceSynchronize());
  HostLog log;
  std::array<Entry, 8> entries;
  for (Word round = 1; round <= 4; ++round) {
    fill_all(buffers, round, streams[0]);
    EXPECT_OK(cudaEventRecord(filled, streams[0]));
    EXPECT_OK(cudaStreamWaitEvent(streams[1], filled, 0));
    mix_all(buffers, 1, streams[1]);
    for (const int half : {0, 1}) {
      Entry& entry = entries[2 * (round - 1) + static_cast<Word>(half)];
      entry = {&log, static_cast<int>(round) * 10 + half};
      EXPECT_OK(cudaLaunchHostFunc(streams[1], append, &entry));
      if (half == 0) mix_all(buffers, 1, streams[1]);
    }
    EXPECT_OK(cuStreamWriteValue32(streams[1], reinterpret_cast<CUdeviceptr>(flag), round, 0));
    EXPECT_OK(
        cuStreamWaitValue32(streams[2], reinterpret_cast<CUdeviceptr>(flag), round, CU_STREAM_WAIT_VALUE_EQ));
    mix_all(buffers, 1, streams[2]);
    std::printf("round %u: %08x\n", round, read_all(buffers, streams[2]));
    EXPECT_OK(cudaEventRecord(read, streams[2]));
    EXPECT_OK(cudaStreamWaitEvent(streams[0], read, 0));
  }
  EXPECT_OK(cudaDeviceSynchronize());
  for (const int number : log.entries) std::printf("host function %d\n", number);
  return 0;
}

void hold(void* data) {
  const auto* const go = static_cast<std::atomic<bool>*>(data);
  while (!*go) std::this_thread::yield();
}

// Work stands behind something that only this very thread can let go, while it asks for more memory than is
// left: nobody may wait for what is held. (Kernels of unknown effects that are held keep all memory where it
// is: they may write any of it at any time.)
template <class Hold, class LetGo>
void beside_held_work(Hold&& hold_stream, LetGo&& let_go) {
  Buffers held(2), others(8);
  cudaStream_t const first = new_stream(), second = new_stream();
  fill_all(others, 1, second);
  mix_all(others, 2, second);  // memory has been short by now
  fill_all(held, 2, first);
  EXPECT_OK(cudaStreamSynchronize(first));
  hold_stream(first);
  for (int which = 0; which < held.count(); ++which) held.set(which, 77u + static_cast<Word>(which), first);
  mix_all(others, 2, second);
  std::printf("others: %08x\n", read_all(others, second));
  EXPECT(cudaStreamQuery(first) == cudaErrorNotReady);
  let_go();
  std::printf("held: %08x\n", read_all(held, first));
  EXPECT_OK(cudaStreamDestroy(first));
  held.release();
  others.release();
}

int held_by_host_function() {
  for (int time = 0; time < 3; ++time) {
    std::atomic<bool> go{false};
    beside_held_work([&](cudaStream_t stream) { EXPECT_OK(cudaLaunchHostFunc(stream, hold, &go)); },
                     [&] { go = true; });
  }
  return 0;
}

int held_by_wait_value() {
  void* memory = nullptr;
  EXPECT_OK(cudaHostAlloc(&memory, sizeof(Word), cudaHostAllocDefault));
  auto* const word = new (memory) std::atomic<Word>(0);
  for (Word time = 1; time <= 3; ++time) {
    beside_held_work(
        [&](cudaStream_t stream) {
          EXPECT_OK(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(memory), time,
                                        CU_STREAM_WAIT_VALUE_EQ));
        },
        [&] { *word = time; });
  }
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int run_scenario(const char* name) {
  const std::map<std::string, std::function<int()>> scenarios = {
      {"first_calls", first_calls},
      {"eight_streams", eight_streams},
      {"fork_before", fork_before},
      {"fork_after", fork_after},
      {"exec_again", exec_again},
      {"exit_without_cleanup", exit_without_cleanup},
      {"exit_at_once", exit_at_once},
      {"exit_while_working", exit_while_working},
      {"until_terminated", until_terminated},
      {"until_terminated_politely", until_terminated_politely},
      {"ordered_streams", ordered_streams},
      {"held_by_host_function", held_by_host_function},
      {"held_by_wait_value", held_by_wait_value},
  };
  const auto found = scenarios.find(name);
  return found == scenarios.end() ? 2 : found->second();
}

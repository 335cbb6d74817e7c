#include "tests/support/program.h"

#include <memory>
#include <utility>

namespace pooch::test {
namespace {

constexpr int refused = 2;

class Again : public Replay {
 public:
  explicit Again(std::function<void(std::span<const Address>, StreamHandle)> work) : work_(std::move(work)) {}
  Status run(std::span<const Address> operands, StreamHandle stream) override {
    work_(operands, stream);
    return Done{};
  }

 private:
  std::function<void(std::span<const Address>, StreamHandle)> work_;
};

}  // namespace

// The program's own ordering between its streams: before it changes over, the new one waits for the old one.
StreamHandle Program::next_stream() {
  if (random_() % 4 == 0) {
    const EventHandle event = *device_.create_event();
    (void)device_.record(event, streams_[current_]);
    current_ ^= 1;
    (void)device_.wait(streams_[current_], event);
    (void)device_.destroy_event(event);
  }
  return streams_[current_];
}

// Like a wrapper: calls that need not be known pass.
int Program::issue(const Call& call, FunctionRef<int()> launch) {
  if (!session_.passing().lets_pass()) return session_.submit(call, launch, refused);
  ++passed_;
  const int status = launch();
  session_.passing().passed();
  return status;
}

int Program::issue_kept(Call call, const Work& work) {
  const auto again = [this, work](std::span<const Address> at, StreamHandle stream) {
    work(at, stream);
    if (spoils_ == 0 || --spoils_ > 0) return;
    device_.launch(stream, [this, to = at.back()] {
      if (auto* const w = word(to, 0)) ++*w;
    });
  };
  const auto kept = [&]() -> std::unique_ptr<Replay> { return std::make_unique<Again>(again); };
  const FunctionRef<std::unique_ptr<Replay>()> keep = kept;
  if (keeps_ && !call.unforeseen) call.keep = &keep;
  std::vector<Address> at;
  for (const Access& access : call.accesses) at.push_back(access.address);
  return issue(call, [&] {
    work(at, call.stream);
    return 0;
  });
}

bool Program::allocate() {
  const std::uint64_t bytes = (1 + random_() % 5) * 2 * MiB - (random_() % 3) * stride;
  if (!session_.manages(bytes)) return true;
  const auto address = session_.allocate(bytes, next_stream());
  if (!address) return false;
  tensors_.push_back({*address, bytes, std::vector<std::uint64_t>(bytes / stride, 0)});
  // Like a framework: the first thing that happens to a tensor is that it is written whole.
  Tensor& t = tensors_.back();
  const std::uint64_t value = ++counter_;
  const Access access{t.address, t.bytes, Effect::overwrite};
  const int status =
      issue_kept({"fill", OpKind::set, next_stream(), {&access, 1}},
                 [=, this, words = t.expected.size()](std::span<const Address> all, StreamHandle stream) {
                   device_.launch(stream, [=, this, at = all[0]] {
                     for (std::uint64_t i = 0; i < words; ++i)
                       if (auto* w = word(at, i)) *w = value + i;
                   });
                 });
  for (std::uint64_t i = 0; i < t.expected.size(); ++i) t.expected[i] = value + i;
  return status == 0;
}

bool Program::release() {
  if (tensors_.empty()) return true;
  const std::size_t i = random_() % tensors_.size();
  const Address gone = tensors_[i].address;
  tensors_.erase(tensors_.begin() + static_cast<long>(i));
  if (random_() % 4 == 0) return bool(session_.free(gone, std::nullopt));
  return bool(session_.free(gone, next_stream()));
}

// out[part] += f(in): reads `in` whole, changes all of `out` or a part of it.
bool Program::compute() {
  if (tensors_.size() < 2) return true;
  Tensor& in = tensors_[random_() % tensors_.size()];
  Tensor& out = tensors_[random_() % tensors_.size()];
  const std::uint64_t words = out.expected.size(), in_words = in.expected.size();
  const bool accumulate = random_() % 2 != 0;
  const std::uint64_t first = random_() % 3 == 0 ? random_() % words : 0;
  const std::uint64_t count = first == 0 ? words : 1 + random_() % (words - first);
  const bool whole = count == words;
  const Access accesses[] = {{in.address, in.bytes, Effect::read},
                             {out.address + first * stride, whole ? out.bytes : count * stride,
                              accumulate ? Effect::read_write : Effect::overwrite}};
  // What it overwrites it does not read besides.
  const std::size_t hidden = hides_ && random_() % 3 == 0 && &in != &out ? 1 + random_() % 2 : 0;
  const std::uint64_t salt = ++counter_;
  const auto value = [=](std::uint64_t old, std::uint64_t input, std::uint64_t i) {
    return (accumulate ? old * 31 : 0) + input * 17 + salt + i;
  };
  Call call{"compute", OpKind::elementwise, next_stream(), std::span(accesses).subspan(hidden)};
  call.unforeseen = hidden > 0;
  const Address from = accesses[0].address, to = accesses[1].address;
  const auto work = [=, this](std::span<const Address> all, StreamHandle stream) {
    const Address a = hidden > 0 ? from : all[0], b = hidden > 0 ? to : all[1];
    device_.launch(stream, [=, this] {
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t* read = word(a, i % in_words);
        std::uint64_t* made = word(b, i);
        if (read && made) *made = value(*made, *read, i);
      }
    });
  };
  const int status = issue_kept(call, work);
  for (std::uint64_t i = 0; i < count; ++i)
    out.expected[first + i] = value(out.expected[first + i], in.expected[i % in_words], i);
  return status == 0;
}

bool Program::read_back(Tensor& t) {
  const Access access{t.address, t.bytes, Effect::read};
  const StreamHandle stream = next_stream();
  const int status = issue({"read", OpKind::copy_out, stream, {&access, 1}, /*blocks=*/true}, [&] {
    device_.launch(stream, [&] {
      for (std::uint64_t i = 0; i < t.expected.size(); ++i)
        if (const auto* w = word(t.address, i); w == nullptr || *w != t.expected[i]) ++wrong_;
    });
    device_.drain();
    return 0;
  });
  return status == 0;
}

bool Program::run(int ops) {
  for (int i = 0; i < ops; ++i) {
    const auto dice = random_() % 10;
    const bool went = tensors_.size() < 3 || dice < 2   ? allocate()
                      : dice < 4 && tensors_.size() > 8 ? release()
                      : dice < 9                        ? compute()
                                                        : read_back(tensors_[random_() % tensors_.size()]);
    if (!went) return false;
    // The program keeps its own need bounded.
    while (tensors_.size() > 14)
      if (!release()) return false;
  }
  return true;
}

bool Program::repeat(int rounds, int ops) {
  const std::mt19937 begin = random_;
  for (int round = 0; round < rounds; ++round) {
    random_ = begin;
    current_ = 0;
    if (!run(ops) || !check_all()) return false;
    while (!tensors_.empty())
      if (!release()) return false;
  }
  return true;
}

bool Program::check_all() {
  for (Tensor& t : tensors_)
    if (!read_back(t)) return false;
  return wrong_ == 0;
}

Config session_config(const char* cap, const char* host, Policy policy) {
  Config config;
  config.memory_cap = SizeSetting{cap};
  config.host_memory = SizeSetting{host};
  config.policy = policy;
  config.log_level = LogLevel::error;
  return config;
}

Planted plant(Fault fault, const Config& config) {
  Planted planted;
  for (unsigned seed = 0; seed < 40 && planted.found == 0; ++seed) {
    LazyDevice device(512 * MiB, seed);
    FaultyDevice faulty(device, fault, 3 + seed);
    const auto session = runtime::Session::open(config, faulty);
    if (!session) break;
    Program program(device, **session, seed);
    const bool fine = program.run(200) && program.check_all();
    device.drain();
    planted.struck += faulty.struck();
    planted.found += !fine || !device.complaints().empty();
  }
  return planted;
}

}  // namespace pooch::test

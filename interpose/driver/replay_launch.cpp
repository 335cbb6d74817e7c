#include "interpose/driver/replay_launch.h"

#include <atomic>
#include <cstring>

namespace pooch::interpose {
namespace {

constinit std::atomic<std::uint64_t> unloads{0};

class KeptLaunch final : public Replay {
 public:
  KeptLaunch(decltype(&cuLaunchKernel) real, const LaunchShape& shape, std::size_t operands)
      : real_(real), shape_(shape), operands_(operands), loaded_(unloads.load()) {}

  bool copy(const LaunchParams& params) {
    for (std::size_t i = 0; i < params.count(); ++i) {
      const auto bytes = params.at(i);
      if (bytes.empty()) return false;
      // Rounded up, so that each starts at an alignment that any type can have.
      params_.emplace_back((bytes.size() + sizeof(Unit) - 1) / sizeof(Unit));
      std::memcpy(params_.back().data(), bytes.data(), bytes.size());
      pointers_.push_back(params_.back().data());
    }
    return true;
  }
  void add(const LaunchWord& word, const KeptOperand& operand) {
    words_.push_back({word.param, word.offset, operand});
  }

  Status run(std::span<const Address> operands, StreamHandle stream) override {
    if (operands.size() != operands_) return wrong_operands("cuLaunchKernel", operands.size(), operands_);
    if (loaded_ != unloads.load())
      return Error{ErrorCode::device, "a kernel that is to be launched again may have been unloaded"};
    const ReplayGuard guard;
    const Run run{operands, stream};
    for (const Word& word : words_) {
      const CUdeviceptr address = word.operand.in(run);
      std::memcpy(reinterpret_cast<std::byte*>(params_[word.param].data()) + word.offset, &address,
                  sizeof address);
    }
    const auto& [function, grid, block, shared] = shape_;
    return replay_status("cuLaunchKernel",
                         real_(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared,
                               KeptStream().in(run), pointers_.data(), nullptr));
  }

 private:
  struct alignas(16) Unit {
    std::byte bytes[16];
  };
  struct Word {
    std::uint32_t param, offset;
    KeptOperand operand;
  };

  decltype(&cuLaunchKernel) real_;
  LaunchShape shape_;
  std::size_t operands_;
  std::uint64_t loaded_;
  std::vector<std::vector<Unit>> params_;
  std::vector<void*> pointers_;
  std::vector<Word> words_;
};

}  // namespace

void forget_kept_launches() {
  unloads.fetch_add(1);
}

std::unique_ptr<Replay> keep_launch(const Keeping& keeping, decltype(&cuLaunchKernel) real,
                                    const LaunchShape& shape, const LaunchParams& params,
                                    std::span<const LaunchWord> words) {
  auto kept = std::make_unique<KeptLaunch>(real, shape, keeping.accesses.size());
  if (real == nullptr || !kept->copy(params)) return nullptr;
  for (const LaunchWord& word : words) kept->add(word, keep_operand(keeping, CUdeviceptr{word.address}));
  return kept;
}

}  // namespace pooch::interpose

#include "tests/support/outliving.h"

#include <algorithm>
#include <random>
#include <vector>

#include "core/pages.h"

namespace pooch::test {
namespace {

class Adder {
 public:
  Adder(PhaseProfile& phase, std::uint64_t seed) : phase_(phase), random_(seed) {}

  void run() {
    const std::int32_t ops = static_cast<std::int32_t>(phase_.ops.size());
    for (int i = 0; i < 4; ++i) {
      const std::int32_t step = within(ops * 3 / 4, ops - 1);
      add({step}, step);
      add({within(0, ops / 3), within(ops / 3, ops / 2)}, step);
      add({within(0, ops - 1)}, outside);
    }
    const std::int32_t made = within(0, ops / 2);
    add_result(made, within(made + 1, made + 3));
    add_arriving(within(ops / 2, ops - 1));
  }

 private:
  std::int32_t within(std::int32_t from, std::int32_t to) {
    return from + static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(to - from + 1));
  }
  std::uint32_t buffer(std::uint64_t bytes, std::int32_t from, std::int32_t until) {
    phase_.buffers.push_back({bytes, true, from, until, {}});
    return static_cast<std::uint32_t>(phase_.buffers.size() - 1);
  }
  std::uint32_t version(std::uint32_t of, std::int32_t producer, std::vector<std::int32_t> readers,
                        Role role) {
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    const auto number = static_cast<std::uint32_t>(phase_.versions.size());
    for (const std::int32_t p : readers) phase_.ops[p].reads.push_back(number);
    if (producer != outside) phase_.ops[producer].writes.push_back(number);
    phase_.versions.push_back({of, 0, phase_.buffers[of].bytes, producer, std::move(readers), role});
    return number;
  }
  void add(const std::vector<std::int32_t>& readers, std::int32_t written) {
    const std::uint32_t of = buffer((1 + random_() % 32) * page, outside, outside);
    version(of, outside, readers, Role::parameter);
    if (written != outside) version(of, written, {}, Role::parameter);
  }
  void add_result(std::int32_t made, std::int32_t read) {
    const std::uint64_t bytes = (16 + random_() % 16) * page;
    version(buffer(bytes, made, outside), made, {read}, Role::activation);
    buffer(bytes, outside, made + 1);  // of the iteration before
  }
  void add_arriving(std::int32_t read) {
    version(buffer((1 + random_() % 32) * page, outside, read + 1), outside, {read}, Role::gradient);
  }

  PhaseProfile& phase_;
  std::mt19937_64 random_;
};

}  // namespace

void add_what_outlives(Profile& profile, std::uint64_t seed) {
  Adder(profile.phases.front(), seed).run();
}

}  // namespace pooch::test

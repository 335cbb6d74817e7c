#include "runtime/session/address_table.h"

#include <array>
#include <cstring>

#include "core/ids.h"

namespace pooch::runtime {
namespace {

constexpr std::uint64_t word_bytes = sizeof(Address);
constexpr std::uint64_t window = 4 << 10;
constexpr std::uint64_t looked_at_whole = MiB, sampled = 64 << 10;  // beyond that a window in so many bytes
constexpr std::uint32_t small_half = 1 << 20;

// Nearly all windows have no such word: no branch for each.
bool has_any(std::span<const std::byte> words, Address base, std::uint64_t bytes) {
  std::uint64_t any = 0, word = 0;
  for (std::size_t at = 0; at + word_bytes <= words.size(); at += word_bytes) {
    std::memcpy(&word, words.data() + at, word_bytes);
    any |= static_cast<std::uint64_t>(word - raw(base) < bytes);
  }
  return any != 0;
}

class Search {
 public:
  Search(const HostBlock& memory, Evidence evidence, Address base, std::uint64_t bytes,
         FunctionRef<PointsTo(Address)> points_to, FunctionRef<void(Address)> visit)
      : memory_(memory),
        total_(memory.bytes()),
        needed_(evidence == Evidence::table && total_ > window ? 2 : 1),
        base_(base),
        bytes_(bytes),
        points_to_(points_to),
        visit_(visit) {}

  void run() {
    if (total_ > looked_at_whole && !any_of_a_sample()) return;
    for (std::uint64_t at = 0; at < total_; at += window) (void)look(at);
  }

 private:
  bool any_of_a_sample() {
    for (std::uint64_t at = 0; at < total_; at += sampled)
      if (look(at)) return true;
    return look((total_ - 1) / window * window);
  }

  // Whether the window is part of a table.
  bool look(std::uint64_t at) {
    std::array<std::byte, window> buffer;
    const auto words = memory_.at(at, std::span(buffer).first(std::min(window, total_ - at)));
    if (!has_any(words, base_, bytes_)) return false;
    std::array<Address, window / word_bytes> found;
    std::size_t count = 0, certain = 0;
    for (std::size_t i = 0; i + word_bytes <= words.size(); i += word_bytes) {
      Address word;
      std::memcpy(&word, words.data() + i, word_bytes);
      if (raw(word) - raw(base_) >= bytes_) continue;
      const PointsTo target = points_to_(word);
      if (target == PointsTo::nothing) continue;
      found[count++] = word;
      certain += target == PointsTo::begin || static_cast<std::uint32_t>(raw(word)) >= small_half ? 1 : 0;
    }
    if (certain < needed_) return false;
    for (std::size_t i = 0; i < count; ++i) visit_(found[i]);
    return true;
  }

  const HostBlock& memory_;
  const std::uint64_t total_;
  const std::size_t needed_;
  const Address base_;
  const std::uint64_t bytes_;
  const FunctionRef<PointsTo(Address)> points_to_;
  const FunctionRef<void(Address)> visit_;
};

}  // namespace

void find_addresses(const HostBlock& memory, Evidence evidence, Address base, std::uint64_t bytes,
                    FunctionRef<PointsTo(Address)> points_to, FunctionRef<void(Address)> visit) {
  if (memory.first != nullptr && memory.bytes() > 0)
    Search(memory, evidence, base, bytes, points_to, visit).run();
}

}  // namespace pooch::runtime

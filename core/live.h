// What a session is doing, for whoever looks from outside: `pooch top`.
//
// Each session has a page of shared memory, a file named after its process and device. The session writes it
// now and then; readers map it and never hold the session up. A write in progress shows in the page's number,
// which is odd meanwhile; a reader then reads again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/plan.h"
#include "core/result.h"

namespace pooch {

enum class LiveState : std::uint32_t {
  fits,       // nothing had to leave the device so far
  streaming,  // memory is short, and what comes is moved without a plan
  settling,   // the first iterations under a plan, or its memory is still being laid out
  planned,
};
std::string_view name(LiveState state);

// Text in the page: cut to its size, with a zero at the end.
template <std::size_t N>
struct LiveText {
  std::array<char, N> text;
  void operator=(std::string_view of) {
    const std::size_t length = of.copy(text.data(), N - 1);
    text[length] = 0;
  }
  std::string_view view() const { return {text.data()}; }
};

// All times in ms, all sizes in bytes. Counts are of the whole run.
struct Live {
  std::int32_t process = 0, device = 0;
  std::int32_t rank = 0, ranks = 1;
  LiveState state = LiveState::fits;
  double began_s = 0, written_s = 0;  // of the system's monotonic clock
  std::uint64_t iterations = 0, planned_iterations = 0, ops = 0;
  // Timed as often as a profile wants; the latter: with a backward pass.
  std::uint64_t measured_phases = 0, measured_training = 0;
  // Of an iteration: on the host's clock, and of the plan that most time went into; 0: not known.
  double iteration_ms = 0, planned_ms = 0, predicted_ms = 0, in_core_ms = 0;
  std::uint64_t cap = 0, used = 0, peak = 0, need = 0;  // of the device
  std::uint64_t host_budget = 0, host_used = 0;         // page-locked
  std::uint64_t bytes_out = 0, bytes_in = 0;            // copied
  double out_per_iteration = 0, in_per_iteration = 0;   // bytes, lately
  std::uint64_t evictions = 0, host_waits = 0, replays = 0, verified = 0, mismatches = 0;
  std::uint64_t unforeseen_ops = 0;  // that may have touched any memory
  // What costs most of the plan's maps.
  struct Map {
    LiveText<48> name;
    MapClass of;
    double cost_ms;
  };
  std::array<Map, 4> dearest{};
  LiveText<64> gpu{};
  LiveText<32> policy{}, phase{};
  LiveText<256> warning{};  // the latest
};
static_assert(std::is_trivially_copyable_v<Live>);

// POOCH_STATUS as it is set, or the default where it is empty: a folder of the user's in shared memory.
std::string live_folder(const std::string& setting);

// The writer's side.
class LivePage {
 public:
  // Error: a file_error(), nobody can look.
  static Result<LivePage> create(const std::string& folder, std::int32_t process, std::int32_t device);
  LivePage(LivePage&& other) noexcept;
  LivePage& operator=(LivePage&&) = delete;
  ~LivePage();  // removes it, in the process that made it

  void write(const Live& live);

 private:
  friend Result<Live> read_live(const std::string& path);
  struct Layout;
  LivePage(std::string path, Layout* page) : path_(std::move(path)), page_(page) {}

  std::string path_;
  Layout* page_;
};

// Error: invalid_argument, it is no such page, or of another version of pooch; or a file_error().
Result<Live> read_live(const std::string& path);
// The pages in the folder, by process and device. Those of processes that have ended unasked are there too.
std::vector<std::string> live_pages(const std::string& folder);

}  // namespace pooch

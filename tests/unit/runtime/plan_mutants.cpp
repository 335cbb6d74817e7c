// Plans with something wrong in their structure, under POOCH_PLAN: each is refused with one line, or carried
// out; the program's numbers are the same either way, and nothing crashes.
//
//   plan_mutants POOCH [MUTANTS [SEED]]      10,000 take four minutes of a processor
//   plan_mutants --plan FILE [SEED]          one plan, as it is; what pooch logs goes to stderr
//
// The plans are real ones: POOCH makes them for the network that then runs. What is checked: no exception, no
// complaint of the device, at most one line per mutant, equal numbers. Nothing is verified, so that only the
// runtime's own checks stand between a plan and wrong bits.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/files.h"
#include "core/log.h"
#include "tests/support/program.h"
#include "tests/support/random_phase.h"
#include "tests/support/trainer.h"

namespace {

namespace fs = std::filesystem;
using namespace pooch;
using Json = nlohmann::ordered_json;
using test::Dice;

constexpr const char* cap = "54MiB";
constexpr int iterations = 9;

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// ---- runs

struct Outcome {
  bool opened = false, trained = false;
  std::string why;  // it was not opened, or what the device complains of
  std::vector<std::uint64_t> numbers;
  Summary summary;
};

Outcome run(const Config& config, unsigned seed) {
  test::LazyDevice device(256 * MiB, seed);
  Outcome outcome;
  auto session = runtime::Session::open(config, device);
  if (!session) {
    outcome.why = session.error().message;
    return outcome;
  }
  outcome.opened = true;
  test::Trainer trainer(device, **session);
  outcome.trained = trainer.train(iterations);
  outcome.numbers = trainer.numbers();
  outcome.summary = (*session)->summary();
  session->reset();
  if (!device.complaints().empty()) outcome.why = device.complaints().front();
  return outcome;
}

// ---- mutants

class Mutator {
 public:
  Mutator(Json plan, std::uint64_t seed) : plan_(std::move(plan)), dice_(seed) {}

  std::string mutate() {
    for (std::uint64_t i = 1 + dice_.below(3); i > 0 && plan_.is_object(); --i) step();
    return deep_.empty() || !plan_.is_object() ? plan_.dump() : splice();
  }

 private:
  void step() {
    switch (dice_.below(14)) {
      case 0:
        return spoil(any(plan_));
      case 1:
        return move_action();
      case 2:
        return twice();
      case 3:
        return leave_out();
      case 4:
        return swap_actions();
      case 5:
        return retarget();
      case 6:
        return reclass();
      case 7:
        return change_by();
      case 8:
        return change_head();
      case 9:
        return shift_list();
      case 10:
        return odd_position();
      case 11:
        return split();
      case 12:
        return retime();
      default:
        return void(deep_ = dice_.one_in(20) ? any_path() : "");
    }
  }

  // Any value at any depth.
  Json& any(Json& from) {
    Json* at = &from;
    while ((at->is_object() || at->is_array()) && !at->empty() && !dice_.one_in(4)) {
      auto next = at->begin();
      std::advance(next, static_cast<std::ptrdiff_t>(dice_.below(at->size())));
      at = &*next;
    }
    return *at;
  }
  std::string any_path() {
    static constexpr const char* keys[] = {"cap",   "maps",       "before",  "after",
                                           "phase", "algorithms", "made_for"};
    return keys[dice_.below(std::size(keys))];
  }
  void spoil(Json& value) {
    static const Json values[] = {-1,
                                  0,
                                  1,
                                  4294967295u,
                                  4294967296,
                                  18446744073709551615u,
                                  1e300,
                                  -0.5,
                                  "",
                                  "x",
                                  "drop",
                                  "replay 1",
                                  "replay 1 one_fma",
                                  "evict -1",
                                  "prefetch 99999999999",
                                  nullptr,
                                  true,
                                  Json::array(),
                                  Json::object(),
                                  std::string(100'000, 'a'),
                                  "a\nb\x1b[31m",
                                  Json::array({Json::array()})};
    value = values[dice_.below(std::size(values))];
  }
  // The actions of one position, or nullptr.
  Json* list() {
    Json& half = plan_[dice_.one_in(2) ? "before" : "after"];
    if (!half.is_object() || half.empty()) return nullptr;
    auto at = half.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(dice_.below(half.size())));
    return at->is_array() && !at->empty() ? &*at : nullptr;
  }
  Json& slot(const char* half) {
    Json& to = plan_[half];
    if (!to.is_object()) to = Json::object();
    if (!to.empty() && !dice_.one_in(3)) {
      auto at = to.begin();
      std::advance(at, static_cast<std::ptrdiff_t>(dice_.below(to.size())));
      return *at;
    }
    return to[std::to_string(dice_.below(45))];
  }
  void put(Json& into, Json action) {
    if (!into.is_array()) into = Json::array();
    into.insert(into.begin() + static_cast<std::ptrdiff_t>(dice_.below(into.size() + 1)), std::move(action));
  }
  Json take(Json& from) {
    const std::size_t i = dice_.below(from.size());
    Json action = from[i];
    from.erase(i);
    return action;
  }
  void move_action() {
    if (Json* const from = list()) {
      Json action = take(*from);
      drop_empty();
      put(slot(dice_.one_in(2) ? "before" : "after"), std::move(action));
    }
  }
  // A prefetch in two parts, at two places.
  void split() {
    Json* const from = list();
    const auto action = from != nullptr ? text_of((*from)[dice_.below(from->size())]) : "";
    if (!action.starts_with("prefetch")) return;
    const std::string subject = action.substr(0, action.find(" at "));
    put(slot("before"),
        fmt::format("{} {}{}", subject, (1 + dice_.below(3)) * MiB, action.substr(subject.size())));
  }
  // Something is expected at another time, or at none.
  void retime() {
    static constexpr const char* times[] = {"", " at 0.0 for 0.0", " at 1e15 for 1.0",
                                            " at 1000000000000000.0 for 0.1",
                                            " at 12.5 for 1000000000000000.0"};
    Json* const from = list();
    if (from == nullptr) return;
    Json& action = (*from)[dice_.below(from->size())];
    const std::string text = text_of(action);
    action = dice_.one_in(5) ? std::string("start") + times[dice_.below(4)]
                             : text.substr(0, text.find(" at ")) + times[dice_.below(5)];
  }
  static std::string text_of(const Json& action) {
    return action.is_string() ? action.get<std::string>() : "";
  }
  void twice() {
    if (Json* const from = list()) {
      const Json action = (*from)[dice_.below(from->size())];
      put(slot(dice_.one_in(2) ? "before" : "after"), action);
    }
  }
  void leave_out() {
    if (Json* const from = list()) (void)take(*from);
    if (!dice_.one_in(4)) drop_empty();
  }
  void drop_empty() {
    for (const char* half : {"before", "after"})
      for (auto at = plan_[half].begin(); plan_[half].is_object() && at != plan_[half].end();)
        at = at->is_array() && at->empty() ? plan_[half].erase(at) : std::next(at);
  }
  void swap_actions() {
    if (Json* const one = list())
      if (Json* const other = list())
        std::swap((*one)[dice_.below(one->size())], (*other)[dice_.below(other->size())]);
  }
  void retarget() {
    if (Json* const at = list()) {
      static constexpr const char* kinds[] = {"evict", "prefetch", "drop", "replay"};
      const std::string piece = dice_.one_in(3) ? fmt::format(" {}", dice_.below(5) * MiB) : "";
      (*at)[dice_.below(at->size())] =
          fmt::format("{} {}{}", kinds[dice_.below(4)], dice_.below(dice_.one_in(9) ? 5000 : 40), piece);
    }
  }
  Json* map() {
    Json& maps = plan_["maps"];
    return maps.is_array() && !maps.empty() ? &maps[dice_.below(maps.size())] : nullptr;
  }
  void reclass() {
    Json* const one = map();
    if (one == nullptr || !one->is_object()) return;
    static constexpr const char* classes[] = {"keep", "swap", "recompute"};
    (*one)["class"] = classes[dice_.below(3)];
    if (dice_.one_in(2)) (*one)["buffer"] = dice_.below(40);
    if (dice_.one_in(3)) (*one)["brief"] = dice_.one_in(2);
  }
  void change_by() {
    Json* const one = map();
    if (one == nullptr || !one->is_object() || !one->contains("by") || !(*one)["by"].is_array()) return;
    Json& by = (*one)["by"];
    if (by.empty() || dice_.one_in(2)) return by.push_back(dice_.below(40));
    if (dice_.one_in(2)) return void(by.erase(dice_.below(by.size())));
    by[dice_.below(by.size())] = dice_.below(40);
  }
  void change_head() {
    static constexpr const char* keys[] = {"phase",        "structure", "cap",       "schema",
                                           "predicted_ms", "peak",      "host_bytes"};
    spoil(plan_[keys[dice_.below(std::size(keys))]]);
  }
  // All actions of one position to another one.
  void shift_list() {
    Json& half = plan_[dice_.one_in(2) ? "before" : "after"];
    if (!half.is_object() || half.empty()) return;
    auto at = half.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(dice_.below(half.size())));
    const Json moved = *at;
    const auto position = static_cast<std::int64_t>(std::strtoll(at.key().c_str(), nullptr, 10)) +
                          static_cast<std::int64_t>(dice_.below(9)) - 4;
    half.erase(at);
    half[std::to_string(position)] = moved;
  }
  void odd_position() {
    static constexpr const char* positions[] = {"-1", "007", "4294967296", "2147483647",
                                                "",   "x",   "1e3",        "99"};
    Json& half = plan_[dice_.one_in(2) ? "before" : "after"];
    if (half.is_object()) half[positions[dice_.below(std::size(positions))]] = Json::array({"replay 1"});
  }
  // Deeper than any stack; not by way of a document, which would be as deep.
  std::string splice() {
    plan_[deep_] = "deep";
    std::string text = plan_.dump();
    const std::size_t at = text.find("\"deep\"");
    return text.replace(at, 6, std::string(100'000, dice_.one_in(2) ? '[' : '{'));
  }

  Json plan_;
  Dice dice_;
  std::string deep_;
};

// ---- the whole

struct Bases {
  std::vector<Json> plans;
  std::string trouble;
};

Bases real_plans(const std::string& planner, const fs::path& folder) {
  Bases bases;
  for (const Policy policy : {Policy::hybrid, Policy::pooch, Policy::superneurons, Policy::swap_all}) {
    const fs::path cache = folder / std::string(name(policy));
    Config config = test::session_config(cap, "256MiB", policy);
    config.policy_chosen = config.wait_for_plans = true;
    config.verify = Verify::off;
    config.planner_program = planner;
    config.cache_folder = cache.string();
    const Outcome outcome = run(config, 1);
    if (!outcome.trained || outcome.summary.planned_iterations == 0)
      bases.trouble = fmt::format("no plan of policy {} was followed: {}", name(policy), outcome.why);
    for (const auto& entry : fs::directory_iterator(cache)) {
      bases.plans.push_back(Json::parse(read(entry.path())));
      bases.plans.back().erase("made_for");
    }
  }
  return bases;
}

int main_in(const fs::path& folder, const std::string& planner, std::uint64_t mutants, std::uint64_t seed) {
  const Outcome expected = run(test::session_config("200MiB", "64MiB", Policy::keep), 1);
  const Bases bases = real_plans(planner, folder);
  if (!expected.trained || !bases.trouble.empty() || bases.plans.empty()) {
    fmt::print("{}\n", bases.trouble.empty() ? "nothing to mutate" : bases.trouble);
    return 1;
  }
  const fs::path said = folder / "log";
  log::configure(LogLevel::warn, said.string());
  std::uint64_t refused = 0, in_demand = 0, followed = 0, wrong = 0;
  for (std::uint64_t i = 0; i < mutants; ++i) {
    Dice dice(mix(seed, i));
    const std::string text = Mutator(bases.plans[dice.below(bases.plans.size())], dice.next()).mutate();
    const fs::path file = folder / "plan.json";
    if (!write_whole(file.string(), text)) return 1;
    Config config = test::session_config(cap, "256MiB", Policy::demand);
    config.plan_file = file.string();
    config.verify = Verify::off;
    fs::resize_file(said, 0);
    const Outcome outcome = run(config, static_cast<unsigned>(dice.below(1000)));
    const std::string lines = read(said);
    const auto count = std::count(lines.begin(), lines.end(), '\n');
    std::string what;
    if (!outcome.opened) {
      ++refused;
      if (outcome.why.empty() || outcome.why.size() > 400 || log::printable(outcome.why) != outcome.why ||
          count != 0)
        what = "not refused in one line: " + log::printable(outcome.why);
    } else {
      ++(outcome.summary.planned_iterations > 0 ? followed : in_demand);
      if (!outcome.trained || !outcome.why.empty()) what = "went wrong: " + outcome.why;
      if (outcome.numbers != expected.numbers) what = "other numbers" + what;
      if (count > 1) what += fmt::format(" {} lines", count);
    }
    if (what.empty()) continue;
    ++wrong;
    fmt::print("mutant {}: {}\n{}", i, what, lines);
    fs::copy_file(file, fs::temp_directory_path() / fmt::format("plan-mutant-{}-{}.json", seed, i),
                  fs::copy_options::overwrite_existing);
  }
  fmt::print("{} mutants of {} plans: {} refused, {} left aside for their phase, {} followed, {} wrong\n",
             mutants, bases.plans.size(), refused, in_demand, followed, wrong);
  const bool all_kinds = refused > 0 && in_demand > 0 && followed > 0;
  if (!all_kinds) fmt::print("mutants of every fate were expected\n");
  return wrong == 0 && all_kinds ? 0 : 1;
}

int try_plan(const std::string& file, unsigned seed) {
  const Outcome expected = run(test::session_config("200MiB", "64MiB", Policy::keep), 1);
  Config config = test::session_config(cap, "256MiB", Policy::demand);
  config.plan_file = file;
  config.verify = Verify::off;
  log::configure(LogLevel::debug, "");
  const Outcome outcome = run(config, seed);
  const bool equal = outcome.numbers == expected.numbers;
  fmt::print("opened: {}, planned iterations: {}, equal numbers: {}; {}\n", outcome.opened,
             outcome.summary.planned_iterations, equal, outcome.why);
  for (std::size_t i = 0; i < outcome.numbers.size() && !equal; ++i)
    if (outcome.numbers[i] != expected.numbers[i]) fmt::print("number {} differs\n", i);
  return equal ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: plan_mutants POOCH [MUTANTS [SEED]]\n");
    return 2;
  }
  if (argc > 2 && std::string_view(argv[1]) == "--plan")
    return try_plan(argv[2], argc > 3 ? static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10)) : 1);
  std::string folder = (fs::temp_directory_path() / "plan-mutants-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const auto number = [&](int i, std::uint64_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const int status = main_in(folder, fs::absolute(argv[1]).string(), number(2, 400), number(3, 1));
  fs::remove_all(folder);
  return status;
}

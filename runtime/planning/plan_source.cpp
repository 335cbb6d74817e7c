#include "runtime/planning/plan_source.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/files.h"
#include "core/log.h"
#include "runtime/processes/own_program.h"

namespace pooch::runtime {
namespace {

// What a planner finds open: its profile, and where its plan is to go.
constexpr const char* profile_name = "/dev/fd/3";
constexpr const char* plan_name = "/dev/fd/4";
// For what happens before and after the planner's own work.
constexpr std::chrono::milliseconds grace(1000);

Error refused(std::string message) {
  return {ErrorCode::invalid_argument, std::move(message)};
}

// Rebuilt planners are other planners: their plans may differ.
std::string version_of(const std::string& planner) {
  const std::string build = file_version(planner);
  return build.empty() ? POOCH_VERSION : POOCH_VERSION " " + build;
}

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  constexpr std::string_view prefix = "pooch: error: ";
  return line.starts_with(prefix) ? line.substr(prefix.size()) : line;
}

// A file without a name: whatever becomes of this process or the planner, nothing is left of it.
Result<OpenFile> nameless_file(const char* purpose) {
  OpenFile file(memfd_create(purpose, MFD_CLOEXEC));
  if (!file) return file_error(errno);
  return file;
}

}  // namespace

Result<std::unique_ptr<PlanSource>> PlanSource::open(const Config& config, PlanTarget target) {
  return open(config, std::move(target), Limits{});
}

Result<std::unique_ptr<PlanSource>> PlanSource::open(const Config& config, PlanTarget target, Limits limits) {
  std::unique_ptr<PlanSource> source(new PlanSource(config, std::move(target), std::move(limits)));
  if (!config.plan_file.empty()) {
    if (const Status read = source->read_plan_file(config.plan_file); !read) return read.error();
  }
  return source;
}

PlanSource::PlanSource(const Config& config, PlanTarget target, Limits limits)
    : policy_(config.policy),
      target_(std::move(target)),
      limits_(std::move(limits)),
      cache_(is_planned(config.policy) ? cache_folder(config.cache_folder) : "") {
  if (!is_planned(policy_) && config.plan_file.empty()) return;
  if (const Status fit = cache_.trusted(); !fit) {
    log::warn("plans are neither looked for nor kept: the cache is not trusted: {}", fit.error().message);
    cache_ = PlanCache("");
  }
  environment_ = own_environment();
  const auto planner = find_own_program(config.planner_program, limits_.library_folder);
  if (planner)
    planner_ = *planner;
  else
    no_planner_ =
        planner.error().message + (config.planner_program.empty() ? "" : ", which POOCH_PLANNER names");
  version_ = version_of(planner_);
}

PlanSource::~PlanSource() {
  abandon();
}

Status PlanSource::read_plan_file(const std::string& path) {
  const auto wrong = [&](const std::string& why) {
    return refused(
        fmt::format("POOCH_PLAN: '{}': {}: accepted are plans that `pooch plan` wrote", path, why));
  };
  const auto text = read_whole(path);
  if (!text) return wrong(text.error().message);
  auto plan = plan_from_json(*text);
  if (!plan) return wrong(plan.error().message);
  if (plan->cap > target_.cap) {
    return refused(
        fmt::format("POOCH_PLAN: '{}': it was made for {} bytes of device memory: accepted are plans "
                    "for at most {}",
                    path, plan->cap, target_.cap));
  }
  if (!plan->algorithms.empty()) {
    log::warn(
        "POOCH_PLAN: '{}' gives {} convolutions other algorithms, which would change results: it is not "
        "followed",
        path, plan->algorithms.size());
    return Done{};
  }
  if (plan->device != target_.device)
    remark_ =
        fmt::format("POOCH_PLAN: '{}' was made for {}, and this is {}", path, plan->device, target_.device);
  from_file_ = std::move(*plan);
  return Done{};
}

bool PlanSource::request(const std::string& phase, const std::function<Profile()>& profile,
                         const Wish& wish) {
  const std::uint64_t cap = target_.cap - std::min(target_.cap, wish.reserve);
  const auto [at, is_new] = entries_.try_emplace(phase);
  if (!is_new) return false;
  Entry& entry = at->second;
  entry.identity = {phase, wish.structure,      target_.device, std::string(name(policy_)), wish.backing,
                    cap,   target_.host_budget, version_};
  entry.provisional = wish.provisional;
  entry.optional = wish.optional;
  entry.laid_out = given(phase) && wish.lay_out;
  if (given(phase) && !entry.laid_out) entry.plan = from_file_;
  if (entry.plan || (!is_planned(policy_) && !entry.laid_out)) return false;
  if (!wish.fresh && !entry.laid_out) entry.plan = find_cached(entry.identity);
  if (entry.plan || failures_ >= limits_.failures) return false;
  if (planner_.empty()) {
    warn_once("no planner", fmt::format("no plans can be made: {}", no_planner_));
    return false;
  }
  auto work = start_planner(entry, profile(), wish);
  if (work)
    entry.work.emplace(std::move(*work));
  else
    fail(phase, entry, work.error().message);
  return entry.work.has_value();
}

std::optional<Plan> PlanSource::find_cached(const PlanIdentity& identity) const {
  auto found = cache_.find(identity);
  if (!found) {
    log::warn("cached plan ignored: {}", found.error().message);
    return std::nullopt;
  }
  if (*found) log::info("phase {}: its plan was in the cache", identity.phase);
  return std::move(*found);
}

Result<PlanSource::Work> PlanSource::start_planner(const Entry& entry, const Profile& profile,
                                                   const Wish& wish) {
  const PlanIdentity& identity = entry.identity;
  // It finds them at the numbers from 3 on.
  std::vector<OpenFile> files;
  const auto file_for = [&](const char* what, const std::string& content) -> Status {
    auto file = nameless_file("pooch-planner");
    const int reason = !file ? file.error().vendor_status : write_all(file->number(), content);
    if (reason != 0) return refused(fmt::format("the {} cannot be written: {}", what, std::strerror(reason)));
    files.push_back(std::move(*file));
    return Done{};
  };
  Status written = file_for("profile", to_json(profile));
  if (written) written = file_for("plan", "");
  std::vector<std::string> command{planner_,
                                   "plan",
                                   profile_name,
                                   "--phase",
                                   identity.phase,
                                   "--policy",
                                   identity.policy,
                                   "--memory",
                                   std::to_string(identity.cap),
                                   "--backing",
                                   std::string(name(identity.backing)),
                                   "-o",
                                   plan_name};
  if (wish.room > 0) command.insert(command.end(), {"--room", std::to_string(wish.room)});
  for (const Plan* other : wish.beside) {
    command.insert(command.end(), {"--beside", fmt::format("/dev/fd/{}", 3 + files.size())});
    if (written) written = file_for("plan beside it", to_json(*other));
  }
  if (entry.laid_out) {
    command.insert(command.end(), {"--follow", fmt::format("/dev/fd/{}", 3 + files.size())});
    if (written) written = file_for("plan to follow", to_json(*from_file_));
  }
  if (!written) return written.error();
  std::vector<int> numbers;
  for (const OpenFile& file : files) numbers.push_back(file.number());
  log::info("phase {}: {} makes a plan", identity.phase, planner_);
  const auto begun = std::chrono::steady_clock::now();
  auto process =
      DetachedProcess::start({std::move(command), environment_, limits_.seconds, std::move(numbers)});
  if (!process) return process.error();
  return Work{std::move(*process), std::move(files[1]), begun,
              begun + std::chrono::seconds(limits_.seconds) + grace};
}

void PlanSource::forget(const std::string& phase) {
  entries_.erase(phase);
}

std::optional<Plan> PlanSource::poll(const std::string& phase) {
  const auto at = entries_.find(phase);
  if (at == entries_.end()) return std::nullopt;
  if (at->second.work) advance(phase, at->second);
  return std::exchange(at->second.plan, std::nullopt);
}

bool PlanSource::pending(const std::string& phase) const {
  const auto at = entries_.find(phase);
  return at != entries_.end() && (at->second.work || at->second.plan);
}

bool PlanSource::settle(const std::string& phase, std::chrono::steady_clock::duration most) {
  const auto at = entries_.find(phase);
  if (at == entries_.end() || !at->second.work) return true;
  Work& work = *at->second.work;
  work.process.wait_until(std::min(work.until, std::chrono::steady_clock::now() + most));
  advance(phase, at->second);
  return !at->second.work;
}

void PlanSource::advance(const std::string& phase, Entry& entry) {
  Work& work = *entry.work;
  const auto now = std::chrono::steady_clock::now();
  if (!work.process.ended()) {
    if (now < work.until) return;
    work.process.kill();
  }
  auto plan = result_of(entry, work);
  const std::chrono::duration<double> took = now - work.begun;
  entry.work.reset();
  if (!plan) return fail(phase, entry, plan.error().message);
  failures_ = 0;
  log::info("phase {}: planned within {:.1f} s, {:.1f} ms per iteration predicted", phase, took.count(),
            plan->predicted_ms);
  keep(entry, *plan);
  entry.plan = std::move(*plan);
}

Result<Plan> PlanSource::result_of(const Entry& entry, const Work& work) const {
  const auto text = read_whole(work.plan.number());
  if (!text) return text.error();
  if (text->empty()) {
    if (const std::string said = first_line(work.process.said()); !said.empty())
      return refused(fmt::format("{}: {}", planner_, said));
    const auto limit = work.begun + std::chrono::seconds(limits_.seconds);
    return refused(std::chrono::steady_clock::now() < limit
                       ? fmt::format("{} ended without a plan", planner_)
                       : fmt::format("{} took longer than {} s", planner_, limits_.seconds));
  }
  auto plan = plan_from_json(*text);
  if (!plan) return refused(fmt::format("{}: {}", planner_, plan.error().message));
  if (entry.laid_out) return plan;
  if (const std::string why = entry.identity.mismatch(*plan); !why.empty())
    return refused(fmt::format("{} made a plan, but {}", planner_, why));
  return plan;
}

void PlanSource::keep(const Entry& entry, const Plan& plan) {
  if (entry.provisional || entry.laid_out) return;
  const Status stored = cache_.store(entry.identity, plan);
  if (!stored)
    warn_once("cache", fmt::format("plans are not kept for the next run: {}", stored.error().message));
}

void PlanSource::fail(const std::string& phase, const Entry& entry, const std::string& why) {
  if (entry.optional) return log::info("phase {}: no other plan: {}", phase, why);
  log::warn("phase {} has no plan and stays in demand mode: {}{}", phase, why,
            ++failures_ == limits_.failures ? "; no more plans are tried" : "");
}

void PlanSource::warn_once(const std::string& what, const std::string& text) {
  if (warned_.insert(what).second) log::warn("{}", text);
}

void PlanSource::abandon() {
  for (auto& [phase, entry] : entries_) {
    if (!entry.work) continue;
    entry.work->process.kill();
    entry.work.reset();
  }
}

}  // namespace pooch::runtime

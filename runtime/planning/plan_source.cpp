#include "runtime/planning/plan_source.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/log.h"
#include "runtime/planning/refused.h"

namespace pooch::runtime {
Result<std::unique_ptr<PlanSource>> PlanSource::open(const Config& config, PlanTarget target) {
  return open(config, std::move(target), Limits{});
}

Result<std::unique_ptr<PlanSource>> PlanSource::open(const Config& config, PlanTarget target, Limits limits) {
  std::unique_ptr<PlanSource> source(new PlanSource(config, std::move(target), std::move(limits)));
  if (!config.plan_file.empty()) {
    if (const Status read = source->given_.read(config.plan_file, source->target_); !read)
      return read.error();
  }
  return source;
}

PlanSource::PlanSource(const Config& config, PlanTarget target, const Limits& limits)
    : policy_(config.policy),
      target_(std::move(target)),
      most_failures_(limits.failures),
      cache_(is_planned(config.policy) ? cache_folder(config.cache_folder) : "") {
  if (!is_planned(policy_) && config.plan_file.empty()) return;
  if (const Status fit = cache_.trusted(); !fit) {
    log::warn("plans are neither looked for nor kept: the cache is not trusted: {}", fit.error().message);
    cache_ = PlanCache("");
  }
  planner_.emplace(config, limits.library_folder, limits.seconds);
}

PlanSource::~PlanSource() {
  abandon();
}

bool PlanSource::request(const std::string& phase, const std::function<Profile()>& profile,
                         const Wish& wish) {
  const std::uint64_t cap = target_.cap - std::min(target_.cap, wish.reserve);
  const auto [at, is_new] = entries_.try_emplace(phase);
  if (!is_new) return false;
  Entry& entry = at->second;
  entry.identity = {phase,
                    wish.structure,
                    target_.device,
                    std::string(name(policy_)),
                    wish.placed,
                    cap,
                    target_.host_budget,
                    planner_ ? planner_->version() : ""};
  entry.provisional = wish.provisional;
  entry.optional = wish.optional;
  entry.laid_out = given(phase) && wish.lay_out;
  if (given(phase) && !entry.laid_out) entry.plan = given_.plan();
  if (entry.plan || (!is_planned(policy_) && !entry.laid_out)) return false;
  if (!wish.fresh && !entry.laid_out) entry.plan = find_cached(entry.identity);
  if (entry.plan || failures_ >= most_failures_) return false;
  if (!planner_->there()) {
    warn_once("no planner", fmt::format("no plans can be made: {}", planner_->missing()));
    return false;
  }
  const Profile whole = profile();
  auto work = planner_->start(
      {entry.identity, whole, wish.room, wish.beside, entry.laid_out ? &given_.plan() : nullptr});
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
  at->second.work->wait(most);
  advance(phase, at->second);
  return !at->second.work;
}

void PlanSource::advance(const std::string& phase, Entry& entry) {
  if (!entry.work->ended()) return;
  const auto took = entry.work->took();
  auto plan = result_of(entry);
  entry.work.reset();
  if (!plan) return fail(phase, entry, plan.error().message);
  failures_ = 0;
  log::info("phase {}: planned within {:.1f} s, {:.1f} ms per iteration predicted", phase, took.count(),
            plan->predicted_ms);
  keep(entry, *plan);
  entry.plan = std::move(*plan);
}

Result<Plan> PlanSource::result_of(const Entry& entry) const {
  const auto text = entry.work->result(planner_->path());
  if (!text) return text.error();
  auto plan = plan_from_json(*text);
  if (!plan) return refused(fmt::format("{}: {}", planner_->path(), plan.error().message));
  if (entry.laid_out) return plan;
  if (const std::string why = entry.identity.mismatch(*plan); !why.empty())
    return refused(fmt::format("{} made a plan, but {}", planner_->path(), why));
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
            ++failures_ == most_failures_ ? "; no more plans are tried" : "");
}

void PlanSource::warn_once(const std::string& what, const std::string& text) {
  if (warned_.insert(what).second) log::warn("{}", text);
}

void PlanSource::abandon() {
  for (auto& [phase, entry] : entries_) {
    if (!entry.work) continue;
    entry.work->kill();
    entry.work.reset();
  }
}

}  // namespace pooch::runtime

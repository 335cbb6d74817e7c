#include "runtime/plan_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/files.h"
#include "core/hash.h"
#include "runtime/json_text.h"

namespace pooch::runtime {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view made_for = "{\"made_for\":";

Error useless(const std::string& path, const std::string& why) {
  return {ErrorCode::invalid_argument, fmt::format("{}: {}", path, why)};
}

// Why others may have a say in what is there; empty: they have none.
std::string doubt(const struct stat& facts) {
  if (facts.st_uid != geteuid() && facts.st_uid != 0)
    return fmt::format("it belongs to user {}", facts.st_uid);
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format(
        "others may write there (mode {:04o}; accepted are folders and files that only their owner may)",
        facts.st_mode & 07777);
  return {};
}

// Opened, so that what was looked at is what is used; the caller closes it.
Result<int> open_folder(const std::string& folder) {
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return file_error(errno);
  struct stat facts {};
  const std::string why = fstat(opened, &facts) == 0 ? doubt(facts) : std::strerror(errno);
  if (why.empty()) return opened;
  ::close(opened);
  return Error{ErrorCode::invalid_argument, why};
}

Result<std::string> read_entry(const std::string& folder, const std::string& path) {
  const auto opened = open_folder(folder);
  if (!opened) return opened.error();
  const std::string name = fs::path(path).filename();
  const int file = openat(*opened, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  const int reason = errno;
  ::close(*opened);
  if (file < 0 && reason == ELOOP) return Error{ErrorCode::invalid_argument, "a symbolic link"};
  if (file < 0) return file_error(reason);
  struct stat facts {};
  const std::string why = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) ? doubt(facts) : "not a file";
  auto text = why.empty() ? read_whole(file) : Result<std::string>(Error{ErrorCode::invalid_argument, why});
  ::close(file);
  return text;
}

// As the XDG Base Directory Specification has it, for nobody else to look into. 0, or an errno.
int make_folders(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return 0;
  if (errno != ENOENT || !folder.has_parent_path() || folder.parent_path() == folder) return errno;
  if (const int reason = make_folders(folder.parent_path()); reason != 0) return reason;
  return mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

}  // namespace

Status PlanCache::trusted() const {
  if (folder_.empty()) return Done{};
  const auto opened = open_folder(folder_);
  if (opened) {
    ::close(*opened);
    return Done{};
  }
  if (const int reason = opened.error().vendor_status; reason == ENOENT || reason == ENOTDIR) return Done{};
  return useless(folder_, opened.error().message);
}

std::string PlanIdentity::to_json() const {
  return fmt::format(
      R"({{"phase":{},"structure":{},"device":{},"policy":{},"backing":{},"cap":{},"host_budget":{},)"
      R"("planner":{}}})",
      json_quoted(phase), json_quoted(structure), json_quoted(device), json_quoted(policy),
      json_quoted(name(backing)), cap, host_budget, json_quoted(planner));
}

std::string PlanIdentity::mismatch(const Plan& plan) const {
  const auto differs = [](const char* what, const auto& is, const auto& wanted) {
    return is == wanted ? std::string() : fmt::format("its {} is '{}', not '{}'", what, is, wanted);
  };
  if (!plan.algorithms.empty()) return "it gives convolutions other algorithms, which would change results";
  for (const std::string& found :
       {differs("phase", plan.phase, phase),
        structure.empty() ? "" : differs("structure", plan.structure, structure),
        differs("device", plan.device, device), differs("policy", plan.policy, policy),
        differs("backing", name(plan.backing), name(backing)), differs("cap", plan.cap, cap)}) {
    if (!found.empty()) return found;
  }
  return {};
}

std::string PlanCache::path_of(const PlanIdentity& identity) const {
  const bool plain = std::all_of(identity.phase.begin(), identity.phase.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  return fmt::format("{}/{}-{:016x}.json", folder_, plain ? identity.phase : "plan",
                     hash(identity.to_json()));
}

Result<std::optional<Plan>> PlanCache::find(const PlanIdentity& identity) const {
  if (folder_.empty()) return std::optional<Plan>{};
  const std::string path = path_of(identity);
  const auto text = read_entry(folder_, path);
  if (!text) {
    const int reason = text.error().vendor_status;
    if (reason == ENOENT || reason == ENOTDIR) return std::optional<Plan>{};
    return useless(path, text.error().message);
  }
  auto plan = plan_in(*text, identity);
  if (!plan) return useless(path, plan.error().message);
  return std::optional<Plan>(std::move(*plan));
}

Result<Plan> PlanCache::plan_in(std::string_view text, const PlanIdentity& identity) {
  const auto refused = [](std::string why) { return Error{ErrorCode::invalid_argument, std::move(why)}; };
  auto plan = plan_from_json(text);
  if (!plan) return plan;
  if (!text.starts_with(fmt::format("{}{},", made_for, identity.to_json())))
    return refused("it was made for something else");
  if (std::string why = identity.mismatch(*plan); !why.empty()) return refused(std::move(why));
  return plan;
}

Status PlanCache::store(const PlanIdentity& identity, const Plan& plan) const {
  if (folder_.empty()) return Done{};
  if (const int reason = make_folders(folder_); reason != 0) return useless(folder_, std::strerror(reason));
  if (const Status fit = trusted(); !fit) return fit;
  const std::string path = path_of(identity);
  const std::string text = fmt::format("{}{},\n {}", made_for, identity.to_json(), to_json(plan).substr(1));
  const Status written = write_whole(path, text, {.replaces = true, .mode = 0600});
  return written ? written : useless(path, written.error().message);
}

std::string cache_folder(const std::string& chosen) {
  std::error_code error;
  if (!chosen.empty()) return fs::absolute(chosen, error).string();
  // Relative ones are invalid (XDG Base Directory Specification).
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/pooch";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache/pooch";
  return {};
}

}  // namespace pooch::runtime

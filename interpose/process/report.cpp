#include "interpose/process/report.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/files.h"
#include "core/log.h"
#include "core/summary.h"
#include "interpose/callsites/callsites.h"
#include "interpose/cudnn/trials.h"
#include "interpose/driver/outside.h"
#include "interpose/kernels/known_kernels.h"
#include "interpose/process/keeper.h"

namespace pooch::interpose {
namespace {

constinit std::atomic<bool> write_failed{false};
// Of the process; never destroyed.
struct Report {
  std::filesystem::path folder;  // empty: none is written
  bool with_profile = false;
};
constinit const Report* wanted = nullptr;

void write_file(const char* what, const std::filesystem::path& to, const std::string& text,
                const OutputOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(to.parent_path(), error);
  const Status written = write_whole(to, text, options);
  if (written || written.error().code == ErrorCode::not_supported) return;
  if (!write_failed.exchange(true))
    log::error("{}: cannot write {}: {}", what, to.string(), written.error().message);
}

// Where this process leaves its report. Processes that share a folder have one of their own in it: ranks by
// their number, of others all but the first by their process id.
std::filesystem::path own_report_folder(const Config& from) {
  std::filesystem::path folder(from.report_folder.empty() ? from.summary_folder : from.report_folder);
  if (folder.empty()) return {};
  if (from.local_rank && from.local_rank->count > 1)
    folder /= fmt::format("rank-{}", from.local_rank->world_rank);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // Held as long as the process lives. Where it cannot be had for another reason, writing will say so.
  const int lock = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return folder;
  close(lock);
  return folder / fmt::format("process-{}", getpid());
}

// The first device's is the process's; others have one of their own in it.
std::filesystem::path folder_of(const Served& one) {
  if (&one == served().front() || wanted->folder.empty()) return wanted->folder;
  return wanted->folder / fmt::format("device-{}", one.device);
}

Summary summary_of(const Served& one) {
  Summary summary = one.session->summary();
  if (&one != served().front()) return summary;
  describe_outside(summary);
  summary.unforeseen_kernels = unforeseen_kernels();
  return summary;
}

void write_report(const Served& one, const Summary& summary, const OutputOptions& options = {}) {
  const std::filesystem::path folder = folder_of(one);
  if (folder.empty()) return;
  write_file("the summary", folder / "summary.json", to_json(summary), options);
  if (!wanted->with_profile) return;
  Profile profile = one.session->profile();
  describe_sites(profile);
  describe_trials(profile);
  write_file("POOCH_REPORT", folder / "profile.json", to_json(profile), options);
}

// By a thread that must not call CUDA: times that a device still has are not in it.
void write_so_far() {
  for (const Served* const one : served()) {
    if (keeping()) write_report(*one, summary_of(*one), {.again = true});
    if (keeping()) one->session->write_trace_so_far([] { return keeping(); });
  }
}

// Where memory was short such launches cost time: what is evicted waits for them.
void say_unforeseen(const Summary& summary) {
  constexpr std::size_t most_named = 3;
  if (summary.unforeseen_kernels.empty() || summary.evictions == 0) return;
  std::string names;
  for (const UnforeseenKernel& one : summary.unforeseen_kernels) {
    if (&one - summary.unforeseen_kernels.data() == most_named) break;
    names += fmt::format("{}{} ({} launches{}{})", names.empty() ? "" : ", ", one.short_name(), one.launches,
                         one.why.empty() ? "" : ": ", one.why);
  }
  const std::size_t all = summary.unforeseen_kernels.size();
  log::warn("{} of {} ops may have touched any memory, and what was evicted waited for them: {}{}",
            summary.unforeseen_ops, summary.ops, names,
            all > most_named ? fmt::format(" and {} more kernels", all - most_named) : "");
}

}  // namespace

void begin_report(const Config& config) {
  wanted = new Report{own_report_folder(config), !config.report_folder.empty()};
  if (!wanted->folder.empty() || !config.trace_file.empty()) start_keeping(write_so_far);
}

void report(const Served& one) {
  one.session->end_live();
  const Summary summary = summary_of(one);  // before the link is measured by copies of our own
  one.session->finish_profile();
  log::info("{} ops, peak {} of {} device bytes, {} evictions, {} bytes out, {} bytes in, need {} bytes",
            summary.ops, summary.peak_device_bytes, summary.cap_bytes, summary.evictions, summary.bytes_out,
            summary.bytes_in, summary.need_bytes);
  if (summary.ops > 0 && !summary.iterations)
    log::info("the program's calls do not repeat themselves: no iterations, no profile");
  say_unforeseen(summary);
  write_report(one, summary);
}

}  // namespace pooch::interpose

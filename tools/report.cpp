#include "report.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/bytes.h"
#include "text_file.h"

namespace pooch::tools {

SummaryFile::SummaryFile(const std::optional<std::string>& path) {
  if (!path) return;
  path_ = output_path(*path);
  auto file = OutputFile::open(path_, {.waits = true});
  good_ = static_cast<bool>(file);
  if (good_ && file->direct()) file_.emplace(std::move(*file));
}

bool SummaryFile::write(const std::string& text) {
  if (path_.empty()) return true;
  if (!file_) return static_cast<bool>(write_text(path_, text));
  file_->append(text);
  const Status written = file_->commit();
  file_.reset();
  path_.clear();
  return static_cast<bool>(written);
}

namespace {

// How it went: what it needed, what it had, and what that cost.
std::string headline(const Summary& s) {
  std::string text = fmt::format("{} in {}: ", format_bytes(s.need_bytes), format_bytes(s.cap_bytes));
  const std::uint64_t iterations = s.iterations.value_or(0);
  if (s.evictions == 0) {
    text += "nothing had to be moved";
  } else if (s.planned_iterations == 0) {
    text += iterations == 0 ? "moved as it was needed, and no iterations were found"
                            : fmt::format("{} iterations, none of them by a plan", iterations);
  } else if (s.actual_ms && s.in_core_ms && *s.in_core_ms > 0) {
    text += fmt::format("about {:+.1f} % over in-core (by the times of its ops), settled after {} iterations",
                        (*s.actual_ms / *s.in_core_ms - 1) * 100, s.settled_after.value_or(0));
  } else {
    text += fmt::format("{} of {} iterations by a plan, too few to tell its time", s.planned_iterations,
                        iterations);
  }
  if (s.mismatches > 0)
    text += fmt::format("; {} OF {} RESULTS THAT WERE MADE AGAIN DIFFERED", s.mismatches, s.verified);
  else if (s.verified > 0)
    text += fmt::format("; {} results made again were compared, all equal", s.verified);
  return text;
}

// Where something is left to gain. Empty: nothing is known.
std::string advice(const Summary& s) {
  if (s.evictions == 0) return "";
  const bool unforeseen = !s.unforeseen_kernels.empty();
  if (s.planned_iterations == 0 && s.iterations.value_or(0) > 0)
    return unforeseen ? "no plan was followed; kernels of unknown effect may be why"
                      : "no plan was followed: more iterations, or more memory, may change that";
  if (s.actual_ms && s.predicted_ms && *s.actual_ms > 1.25 * *s.predicted_ms)
    return fmt::format(
        "iterations take {:.1f} times their prediction: POOCH_TRACE=FILE shows where they wait",
        *s.actual_ms / *s.predicted_ms);
  if (s.actual_ms && s.in_core_ms && *s.actual_ms > 1.5 * *s.in_core_ms)
    return "more memory makes it faster; POOCH_REPORT=FOLDER and pooch explain show what costs most";
  return "";
}

}  // namespace

std::string summary_text(const Summary& s) {
  std::string text = fmt::format("pooch: {}\n", headline(s));
  text += fmt::format("pooch: {}: peak {} on the device, {} on the host\n", s.device,
                      format_bytes(s.peak_device_bytes), format_bytes(s.peak_host_bytes));
  if (s.iterations && s.planned_iterations > 0)
    text +=
        fmt::format("pooch: {} iterations, {} of them planned by {}{}\n", *s.iterations, s.planned_iterations,
                    s.policy, s.any_size_iterations > 0 ? "; sizes differ, the plan is for the largest" : "");
  if (s.predicted_ms && s.actual_ms)
    text += fmt::format("pooch: {:.1f} ms per planned iteration, {:.1f} predicted\n", *s.actual_ms,
                        *s.predicted_ms);
  if (!s.unforeseen_kernels.empty()) {
    const UnforeseenKernel& one = s.unforeseen_kernels.front();
    text += fmt::format("pooch: {} launches may have touched any memory, {} of them of {}{}\n",
                        s.unforeseen_ops, one.launches, one.short_name(),
                        s.unforeseen_kernels.size() > 1
                            ? fmt::format(" ({} kernels in all)", s.unforeseen_kernels.size())
                            : "");
  }
  if (const std::string what = advice(s); !what.empty()) text += fmt::format("pooch: {}\n", what);
  return text;
}

namespace {

bool is_of_a_process(const std::string& folder) {
  return folder.starts_with("rank-") || folder.starts_with("process-") || folder.starts_with("device-");
}

// What to say where nobody left a summary.
void explain_absence(const ChildEnd& end) {
  if (end.signal != 0) {
    say("pooch: the command was killed by signal {} and left no summary\n", end.signal);
  } else if (end.exit_code() == 0) {
    // A command that failed has said why itself.
    say("pooch: no summary: the command never used CUDA, or ended without its exit handlers\n");
  }
}

Result<Summary> read_summary(const std::filesystem::path& from) {
  std::ifstream in(from);
  std::stringstream text;
  text << in.rdbuf();
  return summary_from_json(text.str());
}

}  // namespace

std::vector<std::pair<std::string, std::filesystem::path>> summaries_in(const std::filesystem::path& folder) {
  std::vector<std::pair<std::string, std::filesystem::path>> found;
  std::error_code error;
  if (std::filesystem::exists(folder / "summary.json", error))
    found.emplace_back("", folder / "summary.json");
  const auto own = found.size();
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!is_of_a_process(name)) continue;
    for (auto& [inner, path] : summaries_in(entry.path()))
      found.emplace_back(inner.empty() ? name : name + "/" + inner, path);
  }
  // By number, not by letters: rank-2 goes before rank-10.
  std::sort(found.begin() + static_cast<long>(own), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.size(), a.first) < std::pair(b.first.size(), b.first);
  });
  return found;
}

bool report_run(const std::filesystem::path& folder, const ChildEnd& end, SummaryFile& copy) {
  const auto warn_if_lost = [](bool written) {
    if (!written) say("pooch: error: the summary could not be written\n");
    return written;
  };
  const auto all = summaries_in(folder);
  if (all.empty()) {
    explain_absence(end);
    return warn_if_lost(copy.write("null\n"));
  }
  if (end.signal != 0)
    say("pooch: the command was killed by signal {}; what it had written by then:\n", end.signal);
  std::string together;
  for (const auto& [process, path] : all) {
    const auto summary = read_summary(path);
    if (!summary) {
      say("pooch: error: {}: {}\n", path.string(), summary.error().message);
      copy.write("null\n");
      return false;
    }
    if (!process.empty()) say("pooch: {}\n", process);
    say("{}", summary_text(*summary));
    if (all.size() == 1) return warn_if_lost(copy.write(to_json(*summary)));
    together += fmt::format("{}\"{}\": {}", together.empty() ? "{" : ",\n", process, to_json(*summary));
  }
  return warn_if_lost(copy.write(together + "}\n"));
}

}  // namespace pooch::tools

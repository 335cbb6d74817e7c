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

std::string summary_text(const Summary& s) {
  std::string text = fmt::format("pooch: {}, policy {}, cap {}, need {}\n", s.device, s.policy,
                                 format_bytes(s.cap_bytes), format_bytes(s.need_bytes));
  text += fmt::format("pooch: peak {} on the device, {} on the host\n", format_bytes(s.peak_device_bytes),
                      format_bytes(s.peak_host_bytes));
  if (s.iterations)
    text += fmt::format("pooch: {} iterations, {} of them planned{}\n", *s.iterations, s.planned_iterations,
                        s.any_size_iterations > 0 ? "; sizes differ, the plan is for the largest" : "");
  if (s.predicted_ms && s.actual_ms)
    text += fmt::format("pooch: {:.1f} ms per planned iteration, {:.1f} predicted; peak {}, {} predicted\n",
                        *s.actual_ms, *s.predicted_ms, format_bytes(s.planned_peak_bytes.value_or(0)),
                        format_bytes(s.predicted_peak_bytes.value_or(0)));
  if (s.verified > 0)
    text += fmt::format("pooch: {} replays{}, {} maps compared, {} mismatches\n", s.replays,
                        s.substitutes > 0 ? fmt::format(" ({} by a shorter way)", s.substitutes) : "",
                        s.verified, s.mismatches);
  if (!s.unforeseen_kernels.empty()) {
    const UnforeseenKernel& one = s.unforeseen_kernels.front();
    text += fmt::format("pooch: {} launches may have touched any memory, {} of them of {}{}\n",
                        s.unforeseen_ops, one.launches, one.short_name(),
                        s.unforeseen_kernels.size() > 1
                            ? fmt::format(" ({} kernels in all)", s.unforeseen_kernels.size())
                            : "");
  }
  text += fmt::format(
      "pooch: {} evictions, {} out, {} in, {} VMM calls, {} host waits, {} of them on an idle device\n",
      s.evictions, format_bytes(s.bytes_out), format_bytes(s.bytes_in), s.vmm_calls, s.host_waits,
      s.idle_waits);
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

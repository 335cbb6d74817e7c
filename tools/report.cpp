#include "report.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "core/bytes.h"

namespace pooch::tools {

SummaryFile::SummaryFile(const std::optional<std::string>& path) {
  if (!path) return;
  file_ = std::fopen(path->c_str(), "w");
  good_ = file_ != nullptr;
}

SummaryFile::~SummaryFile() {
  if (file_ != nullptr) std::fclose(file_);
}

bool SummaryFile::write(const std::string& text) {
  return file_ == nullptr || (std::fputs(text.c_str(), file_) >= 0 && std::fflush(file_) == 0);
}

std::string summary_text(const Summary& s) {
  std::string text = fmt::format("pooch: {}, policy {}, cap {}, need {}\n", s.device, s.policy,
                                 format_bytes(s.cap_bytes), format_bytes(s.need_bytes));
  text += fmt::format("pooch: peak {} on the device, {} on the host\n", format_bytes(s.peak_device_bytes),
                      format_bytes(s.peak_host_bytes));
  if (s.iterations)
    text += fmt::format("pooch: {} iterations, {} of them planned\n", *s.iterations, s.planned_iterations);
  if (s.predicted_ms && s.actual_ms)
    text += fmt::format("pooch: {:.1f} ms per planned iteration, {:.1f} predicted; peak {}, {} predicted\n",
                        *s.actual_ms, *s.predicted_ms, format_bytes(s.planned_peak_bytes.value_or(0)),
                        format_bytes(s.predicted_peak_bytes.value_or(0)));
  if (s.verified > 0)
    text += fmt::format("pooch: {} replays, {} maps compared, {} mismatches\n", s.replays, s.verified,
                        s.mismatches);
  text += fmt::format("pooch: {} evictions, {} out, {} in, {} VMM calls, {} host waits\n", s.evictions,
                      format_bytes(s.bytes_out), format_bytes(s.bytes_in), s.vmm_calls, s.host_waits);
  return text;
}

bool report_run(const std::filesystem::path& summary_json, const ChildEnd& end, SummaryFile& copy) {
  const auto warn_if_lost = [](bool written) {
    if (!written) fmt::print(stderr, "pooch: error: the summary could not be written\n");
    return written;
  };
  std::ifstream in(summary_json);
  if (!in) {
    if (end.signal != 0) {
      fmt::print(stderr, "pooch: the command was killed by signal {} and left no summary\n", end.signal);
    } else if (end.exit_code() == 0) {
      // A command that failed has said why itself.
      fmt::print(stderr,
                 "pooch: no summary: the command never used CUDA, or ended without its exit handlers\n");
    }
    return warn_if_lost(copy.write("null\n"));
  }
  std::stringstream text;
  text << in.rdbuf();
  const auto summary = summary_from_json(text.str());
  if (!summary) {
    fmt::print(stderr, "pooch: error: {}: {}\n", summary_json.string(), summary.error().message);
    copy.write("null\n");
    return false;
  }
  fmt::print(stderr, "{}", summary_text(*summary));
  return warn_if_lost(copy.write(to_json(*summary)));
}

}  // namespace pooch::tools

#include "simulate_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "core/json_cursor.h"
#include "text_file.h"

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

// While it lives, what goes to stdout goes into a file.
class StdoutInto {
 public:
  explicit StdoutInto(const fs::path& path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return;
    std::fflush(stdout);
    before_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    good_ = before_ >= 0 && dup2(file, STDOUT_FILENO) >= 0;
    ::close(file);
  }
  ~StdoutInto() {
    if (good_) dup2(before_, STDOUT_FILENO);
    if (before_ >= 0) ::close(before_);
  }
  StdoutInto(const StdoutInto&) = delete;
  StdoutInto& operator=(const StdoutInto&) = delete;

  bool good() const { return good_; }

 private:
  int before_ = -1;
  bool good_ = false;
};

// Variables that this process has only for as long as this lives.
class ScopedVariables {
 public:
  explicit ScopedVariables(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~ScopedVariables() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  ScopedVariables(const ScopedVariables&) = delete;
  ScopedVariables& operator=(const ScopedVariables&) = delete;

 private:
  const Variables variables_;
};

// Nothing where the line is no JSON object with a batch above 0.
std::optional<std::uint64_t> batch_in(std::string_view line) {
  std::uint64_t batch = 0;
  bool alternates = false;
  JsonCursor in(line);
  in.members([&](std::string_view key) {
    alternates |= key == "alternate";
    if (key == "batch")
      in.whole(batch, std::numeric_limits<std::uint64_t>::max());
    else
      in.skip();
  });
  in.finish();
  return in.good() && !alternates && batch > 0 ? std::optional(batch) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> batch_of(std::string_view output) {
  std::optional<std::uint64_t> batch;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
    if (const auto found = batch_in(line)) batch = found;
  }
  return batch;
}

void forget_settings_of_runs() {
  for (const char* name :
       {"POOCH_RECORD", "POOCH_TRACE", "POOCH_PLAN", "POOCH_CACHE", "POOCH_WAIT_FOR_PLANS"})
    unsetenv(name);
}

Result<int> run_into(const fs::path& folder, const RunOptions& run, Variables variables) {
  variables.emplace_back("POOCH_REPORT", folder.string());
  const fs::path output = folder / "stdout";
  int code = 0;
  {
    const ScopedVariables set(std::move(variables));
    const StdoutInto redirected(output);
    if (!redirected.good()) return Error{ErrorCode::internal, "the command's output cannot be kept"};
    code = run_command(run);
  }
  if (code != 0)
    if (const auto text = read_text(output.string())) say("{}", *text);
  return code;
}

}  // namespace pooch::tools

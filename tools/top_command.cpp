#include "top_command.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "core/live.h"
#include "live_view.h"
#include "run_command.h"
#include "text_file.h"

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t most_in_full = 3;  // sessions; of more there is a line each

std::atomic<bool> interrupted{false};

std::string setting(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

// "python train.py", as far as it can be told.
std::string program_of(std::int32_t process) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", process), std::ios::binary);
  std::string program, word;
  for (int words = 0; words < 2 && std::getline(file, word, '\0'); ++words) {
    if (word.starts_with("-")) break;
    program += (program.empty() ? "" : " ") + fs::path(word).filename().string();
  }
  return program;
}

// In containers nobody may collect what has ended.
bool is_zombie(std::int32_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end + 1).starts_with(" Z");
}

bool lives(std::int32_t process) {
  return (kill(process, 0) == 0 || errno == EPERM) && !is_zombie(process);
}

class Sessions {
 public:
  explicit Sessions(const TopOptions& options)
      : processes_(options.processes), folder_(live_folder(setting("POOCH_STATUS"))) {}

  // Pages of processes that were killed are shown and removed.
  void look() {
    const std::vector<std::string> pages = live_pages(folder_);
    for (auto& [path, view] : seen_)
      if (std::find(pages.begin(), pages.end(), path) == pages.end()) view.ended = true;
    for (const std::string& path : pages) {
      const auto live = read_live(path);
      if (!live || !wanted(live->process)) continue;
      LiveView& view = seen_[path];
      view.live = *live;
      view.ended = !lives(live->process);
      if (view.program.empty()) view.program = program_of(live->process);
      std::error_code error;
      if (view.ended) fs::remove(path, error);
    }
  }
  std::vector<LiveView> views() const {
    std::vector<LiveView> all;
    for (const auto& [path, view] : seen_) all.push_back(view);
    std::stable_sort(all.begin(), all.end(), [](const LiveView& a, const LiveView& b) {
      return std::pair(a.live.rank, a.live.process) < std::pair(b.live.rank, b.live.process);
    });
    return all;
  }
  bool empty() const { return seen_.empty(); }
  bool all_ended() const {
    return !seen_.empty() &&
           std::all_of(seen_.begin(), seen_.end(), [](const auto& one) { return one.second.ended; });
  }

 private:
  bool wanted(std::int32_t process) const {
    return processes_.empty() || std::find(processes_.begin(), processes_.end(), process) != processes_.end();
  }

  const std::vector<std::int32_t> processes_;
  const std::string folder_;
  std::map<std::string, LiveView> seen_;  // by page
};

LiveStyle style_of_terminal() {
  LiveStyle style;
  winsize size{};
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    style.width = size.ws_col;
  style.colour = terminal && setting("NO_COLOR").empty() && setting("TERM") != "dumb";
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = setting(variable);
    if (locale.empty()) continue;
    style.unicode = locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    break;
  }
  return style;
}

std::string text_of(const std::vector<LiveView>& views, const LiveStyle& style) {
  if (views.size() > most_in_full) return live_table(views, style);
  std::string text;
  for (const LiveView& view : views) text += (text.empty() ? "" : "\n") + live_text(view, style);
  return text;
}

int none(const TopOptions& options) {
  std::string of = "no program runs with pooch";
  for (const std::int32_t process : options.processes)
    of = fmt::format("process {} is none that runs with pooch and has used a GPU", process);
  say("pooch: error: top: {}\n", of);
  return exit_failed;
}

// The screen as it was, whatever ends this.
class Screen {
 public:
  Screen() {
    struct sigaction stop {};
    stop.sa_handler = [](int) { interrupted = true; };
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &stop, nullptr);
    if (terminal_) put("\x1b[?1049h\x1b[?25l");
  }
  ~Screen() {
    if (terminal_) put("\x1b[?25h\x1b[?1049l");
  }
  bool show(std::string_view text) const {
    return put(terminal_ ? fmt::format("\x1b[H\x1b[J{}", text) : std::string(text));
  }

 private:
  static bool put(std::string_view text) { return print_text("top", text) == 0; }
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
};

void pause_for(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!interrupted && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace

int top_command(const TopOptions& options) {
  Sessions sessions(options);
  sessions.look();
  if (options.json) return print_text("top", live_json(sessions.views()));
  if (options.once) {
    if (sessions.empty()) return none(options);
    return print_text("top", text_of(sessions.views(), style_of_terminal()));
  }
  if (sessions.empty() && !options.processes.empty()) return none(options);
  {
    const Screen screen;
    while (!interrupted && !sessions.all_ended()) {
      const std::string text = sessions.empty() ? "pooch top: no program runs with pooch yet\n"
                                                : text_of(sessions.views(), style_of_terminal());
      if (!screen.show(text)) return exit_failed;
      pause_for(options.interval_s);
      sessions.look();
    }
  }
  // What there was last stays readable.
  return sessions.empty() ? 0 : print_text("top", text_of(sessions.views(), style_of_terminal()));
}

}  // namespace pooch::tools

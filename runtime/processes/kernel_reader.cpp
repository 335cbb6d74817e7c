#include "runtime/processes/kernel_reader.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/cache_folder.h"
#include "core/json_cursor.h"
#include "core/log.h"
#include "runtime/processes/own_program.h"

namespace pooch::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned longest_life = 3600;  // seconds, of one process
constexpr unsigned most_deaths = 5;      // of processes at their work, then no more are started
constexpr std::size_t largest_packet = 160 << 10;

// A JSON string of what may be any bytes.
std::string in_quotes(std::string_view text) {
  std::string quote = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quote += '\\';
      quote += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quote += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quote += c;
    }
  }
  return quote + '"';
}

// The bytes as a file without a name, for the other process to map.
OpenFile file_of(const std::string& bytes) {
  OpenFile file(memfd_create("pooch-code", MFD_CLOEXEC));
  if (file && (write_all(file.number(), bytes) != 0 || lseek(file.number(), 0, SEEK_SET) != 0))
    return OpenFile();
  return file;
}

}  // namespace

KernelReader::KernelReader(const Config& config, const std::string& packages,
                           const std::string& library_folder)
    : command_{{"", "effects", "--serve"}, own_environment(), longest_life} {
  const auto program = find_own_program(config.planner_program, library_folder);
  if (program)
    command_.arguments.front() = *program;
  else
    unusable_ = program.error().message;
  const auto add = [this](const char* option, const std::string& folder) {
    if (!folder.empty()) command_.arguments.insert(command_.arguments.end(), {option, folder});
  };
  add("--cache", cache_folder(config.cache_folder));
  add("--packages", packages);
}

KernelReader::~KernelReader() = default;

std::uint64_t KernelReader::ask(Question question) {
  const std::lock_guard lock(mutex_);
  asked_.push_back({++tickets_, std::move(question)});
  return tickets_;
}

bool KernelReader::pending() const {
  const std::lock_guard lock(mutex_);
  return !asked_.empty();
}

std::vector<KernelReader::Answer> KernelReader::poll() {
  const std::lock_guard lock(mutex_);
  return advance();
}

std::vector<KernelReader::Answer> KernelReader::await(std::chrono::milliseconds limit) {
  const std::lock_guard lock(mutex_);
  const auto until = Clock::now() + limit;
  std::vector<Answer> answers = advance();
  while (!asked_.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) break;
    pollfd ready{server_ ? server_->socket.number() : -1, POLLIN, 0};
    if (server_) (void)::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1000)));
    for (Answer& one : advance()) answers.push_back(std::move(one));
  }
  return answers;
}

// --- the other process

Status KernelReader::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return file_error(errno);
  OpenFile own(ends[0]);
  const OpenFile theirs(ends[1]);
  DetachedCommand command = command_;
  command.files = {theirs.number()};
  auto process = DetachedProcess::start(command);
  if (!process) return process.error();
  server_.emplace(Server{std::move(*process), std::move(own)});
  return Done{};
}

// True: it is on its way.
bool KernelReader::send(const Asked& asked) {
  const auto& [image, name, architecture] = asked.question;
  const std::string text =
      fmt::format("{{\"ticket\":{},\"name\":{},\"architecture\":{},\"file\":{},\"offset\":{}}}", asked.ticket,
                  in_quotes(name), architecture, in_quotes(image.file), image.offset);
  const OpenFile code = image.bytes != nullptr ? file_of(*image.bytes) : OpenFile();
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (code) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = code.number();
    std::memcpy(CMSG_DATA(head), &number, sizeof number);
  }
  return sendmsg(server_->socket.number(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

void KernelReader::send() {
  for (Asked& one : asked_) {
    if (one.sent) continue;
    if (!send(one)) return;  // its queue is full: the rest goes later
    one.sent = true;
  }
}

KernelReader::Received KernelReader::receive(std::string& packet) {
  packet.resize(largest_packet);
  ssize_t got;
  do {
    got = recv(server_->socket.number(), packet.data(), packet.size(), MSG_DONTWAIT);
    // A process that dies with questions unread resets the socket. That is said once, ahead of its last
    // answers.
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got > 0) return packet.resize(static_cast<std::size_t>(got)), Received::packet;
  return got < 0 && errno == EAGAIN ? Received::nothing : Received::end;
}

// {"ticket":3,"kernel":{…}} or {"ticket":3,"error":"…"}; {"error":"…"}: nothing can be answered.
void KernelReader::take(const std::string& packet, std::vector<Answer>& answers) {
  std::uint64_t ticket = 0;
  std::string error;
  std::optional<KernelCode> code;
  JsonCursor in(packet);
  in.members([&](std::string_view key) {
    if (key == "ticket")
      ticket = in.whole(tickets_);
    else if (key == "error")
      in.text(error);
    else if (key == "kernel")
      code = KernelCode::read(in);
    else
      in.reject("is no field");
  });
  in.finish();
  if (!in.good()) return give_up(fmt::format("{} says {}", program(), in.error()), answers);
  if (ticket == 0) return give_up(error, answers);
  std::erase_if(asked_, [&](const Asked& one) { return one.ticket == ticket; });
  if (code)
    answers.push_back({ticket, std::move(*code)});
  else
    answers.push_back({ticket, Error{ErrorCode::invalid_argument, error}});
}

// The process died at its work: of what it was asked, the first is to blame.
void KernelReader::lost(std::vector<Answer>& answers) {
  (void)server_->process.wait_until(Clock::now() + std::chrono::seconds(1));
  const std::string said = server_->process.said();
  server_.reset();
  log::info("{} ended while it read machine code{}{}", program(), said.empty() ? "" : ": ", said);
  if (++deaths_ >= most_deaths) return give_up("the reader of machine code ends again and again", answers);
  for (Asked& one : asked_) one.sent = false;
  if (asked_.empty()) return;
  answers.push_back({asked_.front().ticket, Error{ErrorCode::internal, "the reader of machine code ended"}});
  asked_.pop_front();
}

void KernelReader::give_up(const std::string& why, std::vector<Answer>& answers) {
  unusable_ = why;
  server_.reset();
  if (!std::exchange(said_, true)) log::info("no machine code is read: {}", why);
  for (const Asked& one : asked_) answers.push_back({one.ticket, Error{ErrorCode::not_supported, why}});
  asked_.clear();
}

std::vector<KernelReader::Answer> KernelReader::advance() {
  std::vector<Answer> answers;
  if (asked_.empty()) return answers;
  if (!unusable_.empty()) return give_up(unusable_, answers), std::move(answers);
  if (!server_)
    if (const Status started = start(); !started)
      return give_up(fmt::format("{}: {}", program(), started.error().message), answers), std::move(answers);
  send();
  std::string packet;
  while (server_ && !asked_.empty()) {
    const Received got = receive(packet);
    if (got == Received::nothing) break;
    if (got == Received::packet)
      take(packet, answers);
    else
      lost(answers);
  }
  if (asked_.empty()) server_.reset();  // which ends it
  return answers;
}

}  // namespace pooch::runtime

#include "effects_server.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/cache_folder.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/json_cursor.h"
#include "core/log.h"
#include "run_command.h"
#include "softgpu/driver/code/elf_file.h"
#include "softgpu/driver/code/fatbin.h"
#include "text_file.h"
#include "tools/effects/disassembler.h"
#include "tools/effects/json.h"
#include "tools/effects/mapped_file.h"
#include "tools/effects/survey.h"

namespace pooch::tools {
namespace {

using effects::MappedFile;
using nlohmann::ordered_json;

constexpr int socket_number = 3;
constexpr std::size_t largest_packet = 160 << 10;

struct Question {
  std::uint64_t ticket = 0;
  std::string name, file;
  std::uint32_t architecture = 0;
  std::uint64_t offset = 0;
};

Result<Question> read_question(std::string_view packet) {
  Question asked;
  JsonCursor in(packet);
  in.members([&](std::string_view key) {
    if (key == "ticket")
      asked.ticket = in.whole(~std::uint64_t{0});
    else if (key == "name")
      in.text(asked.name);
    else if (key == "file")
      in.text(asked.file);
    else if (key == "architecture")
      in.whole(asked.architecture, 1000);
    else if (key == "offset")
      asked.offset = in.whole(~std::uint64_t{0});
    else
      in.reject("is no field");
  });
  in.finish();
  if (!in.good()) return Error{ErrorCode::invalid_argument, in.error()};
  return asked;
}

// The fat binary or cubin that `bytes` begins with; the rest belongs to others.
std::string_view first_image(std::string_view bytes) {
  const auto* const at = reinterpret_cast<const std::byte*>(bytes.data());
  if (const auto container = softgpu::read_container(at, bytes.size()))
    return bytes.substr(0, container->bytes);
  const softgpu::ElfFile elf(at, bytes.size());
  std::uint64_t end = elf.head().e_shoff + std::uint64_t{elf.head().e_shentsize} * elf.head().e_shnum;
  end = std::max(end, elf.head().e_phoff + std::uint64_t{elf.head().e_phentsize} * elf.head().e_phnum);
  return bytes.substr(0, end);
}

// Another one whenever this program is replaced: what is kept may then be outdated.
std::string own_version() {
  struct stat facts {};
  if (stat("/proc/self/exe", &facts) != 0) return POOCH_VERSION;
  return fmt::format("{} {}-{}.{}", POOCH_VERSION, facts.st_size, facts.st_mtim.tv_sec,
                     facts.st_mtim.tv_nsec);
}

// What was found out before, by the content of the image: an entry for each kernel.
class KernelCache {
 public:
  explicit KernelCache(const std::string& folder) : folder_(folder), version_(own_version()) {}

  std::optional<ordered_json> find(std::string_view image, const Question& asked) const {
    const auto text = folder_.read(entry_for(image, asked));
    if (!text) return std::nullopt;
    auto entry = ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object() || entry.value("version", "") != version_ || !entry.contains("kernel"))
      return std::nullopt;
    return entry["kernel"];
  }
  void keep(std::string_view image, const Question& asked, const ordered_json& kernel) {
    const Status stored = folder_.store(
        entry_for(image, asked), ordered_json({{"version", version_}, {"kernel", kernel}}).dump() + "\n");
    if (!stored && !std::exchange(said_, true))
      say("pooch: what kernels touch is not kept for the next run: {}\n", stored.error().message);
  }

 private:
  std::string entry_for(std::string_view image, const Question& asked) const {
    const std::uint64_t key =
        mix(mix(mix(hash(image), hash(asked.name)), asked.architecture), hash(version_));
    return fmt::format("kernel-{:016x}.json", key);
  }

  CacheFolder folder_;
  std::string version_;
  bool said_ = false;
};

class Server {
 public:
  explicit Server(const EffectsServerOptions& options) : options_(options), cache_(options.cache) {
    if (!options.nvdisasm.empty())
      disassembler_ = options.nvdisasm;
    else
      disassembler_ = effects::find_disassembler(options.packages);
  }

  int run() {
    // Who asks closes first: what was said last would be lost behind a question that nobody has read.
    std::string packet;
    for (OpenFile code; receive(packet, code);) {
      const auto asked = read_question(packet);
      if (!asked || !disassembler_) {
        answer({{"error", asked ? fmt::format("nvdisasm is nowhere: {}", effects::disassembler_cure)
                                : asked.error().message}});
        continue;
      }
      const auto kernel = look_at(*asked, code);
      if (kernel)
        answer({{"ticket", asked->ticket}, {"kernel", *kernel}});
      else
        answer({{"ticket", asked->ticket}, {"error", kernel.error().message}});
    }
    return 0;
  }

 private:
  Result<std::shared_ptr<const MappedFile>> open(const Question& asked, const OpenFile& code) {
    if (code) return MappedFile::map(code.number());
    auto& known = files_[asked.file];
    if (known != nullptr) return known;
    auto opened = MappedFile::open(asked.file);
    if (opened) known = *opened;
    return opened;
  }

  Result<ordered_json> look_at(const Question& asked, const OpenFile& code) {
    const auto file = open(asked, code);
    if (!file) return file.error();
    if (asked.offset >= (*file)->text().size())
      return Error{ErrorCode::invalid_argument, "the file ends before its code"};
    const std::string_view image = first_image((*file)->text().substr(asked.offset));
    if (auto known = cache_.find(image, asked)) return std::move(*known);
    const auto found = effects::analyse_kernel(image, asked.name, asked.architecture, *disassembler_);
    if (!found) return found.error();
    ordered_json kernel = effects::to_json(*found);
    cache_.keep(image, asked, kernel);
    return kernel;
  }

  // False: nobody asks any more.
  static bool receive(std::string& packet, OpenFile& code) {
    packet.resize(largest_packet);
    iovec part{packet.data(), packet.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t got = 0;
    do got = recvmsg(socket_number, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0) return false;
    packet.resize(static_cast<std::size_t>(got));
    code = OpenFile();
    const cmsghdr* const head = CMSG_FIRSTHDR(&message);
    if (head != nullptr && head->cmsg_type == SCM_RIGHTS) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(head), sizeof number);
      code = OpenFile(number);
    }
    return true;
  }

  static void answer(const ordered_json& what) {
    // Reasons may quote any bytes of a damaged image.
    std::string text = what.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    if (text.size() > largest_packet)
      text = ordered_json({{"ticket", what.value("ticket", std::uint64_t{0})},
                           {"error", "what it touches is too much to say"}})
                 .dump();
    (void)send(socket_number, text.data(), text.size(), MSG_NOSIGNAL);
  }

  const EffectsServerOptions& options_;
  KernelCache cache_;
  std::optional<std::filesystem::path> disassembler_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace

int serve_effects(const EffectsServerOptions& options) {
  return Server(options).run();
}

}  // namespace pooch::tools

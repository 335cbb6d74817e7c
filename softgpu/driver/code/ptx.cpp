#include "softgpu/driver/code/ptx.h"

#include <algorithm>
#include <cstdlib>

namespace softgpu {
namespace {

// Words, and single signs of these; blanks and comments fall away.
constexpr std::string_view signs = "(),[]{};";

class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  // Empty: the end.
  std::string_view next() {
    skip();
    if (text_.empty()) return {};
    std::size_t length = 1;
    if (signs.find(text_[0]) == std::string_view::npos)
      length = std::min(text_.find_first_of(" \t\r\n(),[]{};/"), text_.size());
    const std::string_view token = text_.substr(0, std::max<std::size_t>(length, 1));
    text_.remove_prefix(token.size());
    return token;
  }

 private:
  void skip() {
    for (;;) {
      text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size()));
      if (text_.starts_with("//")) {
        text_.remove_prefix(std::min(text_.find('\n'), text_.size()));
      } else if (text_.starts_with("/*")) {
        text_.remove_prefix(std::min(text_.find("*/", 2), text_.size() - 2) + 2);
      } else {
        return;
      }
    }
  }
  std::string_view text_;
};

// 0: no type.
std::uint32_t size_of(std::string_view type) {
  static constexpr std::string_view kinds = "bsuf";
  if (type.size() < 3 || type[0] != '.' || kinds.find(type[1]) == std::string_view::npos) return 0;
  const std::string bits(type.substr(2));
  for (const std::uint32_t known : {8, 16, 32, 64})
    if (bits == std::to_string(known)) return known / 8;
  return 0;
}

std::uint32_t number(std::string_view token) {
  return static_cast<std::uint32_t>(std::strtoul(std::string(token).c_str(), nullptr, 10));
}

// ( .param .u64 name, .param .align 8 .b8 name[16] ): each at its alignment, which is its type's where none
// is said.
bool read_params(Tokens& tokens, std::vector<KernelParam>& params) {
  std::uint32_t size = 0, alignment = 0, end = 0;
  for (std::string_view token = tokens.next(); !token.empty(); token = tokens.next()) {
    if (token == "," || token == ")") {
      if (size > 0) {
        const std::uint32_t offset = (end + alignment - 1) / alignment * alignment;
        params.push_back({offset, size});
        end = offset + size;
      }
      if (token == ")") return true;
      size = alignment = 0;
    } else if (token == ".align") {
      alignment = number(tokens.next());
      if (alignment == 0) return false;
    } else if (token == "[") {
      size *= number(tokens.next());
      if (size == 0 || tokens.next() != "]") return false;
    } else if (const std::uint32_t of_type = size_of(token); of_type > 0) {
      size = of_type;
      if (alignment == 0) alignment = of_type;
    }
  }
  return false;
}

}  // namespace

bool is_ptx(const char* text) {
  return Tokens(text).next() == ".version";
}

std::optional<std::vector<PtxEntry>> ptx_entries(std::string_view text) {
  std::vector<PtxEntry> entries;
  Tokens tokens(text);
  for (std::string_view token = tokens.next(); !token.empty(); token = tokens.next()) {
    if (token != ".entry") continue;
    PtxEntry entry{std::string(tokens.next()), {}};
    const std::string_view open = tokens.next();
    if (open != "{" && (open != "(" || !read_params(tokens, entry.params))) return std::nullopt;
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace softgpu

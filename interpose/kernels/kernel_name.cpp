#include "interpose/kernels/kernel_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "interpose/kernels/mangled_name.h"

namespace pooch::interpose {
namespace {

constexpr std::string_view anonymous = "(anonymous namespace)::";

std::string demangled(const char* name) {
  if (!can_be_demangled(name)) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

// Where the bracket that ends `text` begins; npos where it ends with none.
std::size_t begin_of_last(std::string_view text, char open, char close) {
  if (text.empty() || text.back() != close) return std::string_view::npos;
  int depth = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    if (text[i] == close) ++depth;
    if (text[i] == open && --depth == 0) return i;
  }
  return std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      if (const auto part = trimmed(list.substr(begin, i - begin)); !part.empty()) parts.emplace_back(part);
      begin = i + 1;
    } else if (std::string_view("<({[").find(list[i]) != std::string_view::npos) {
      ++depth;
    } else if (std::string_view(">)}]").find(list[i]) != std::string_view::npos) {
      --depth;
    }
  }
  return parts;
}

std::string template_argument(std::string_view type, std::size_t index) {
  const std::size_t open = begin_of_last(type, '<', '>');
  if (open == std::string_view::npos) return {};
  const auto arguments = split_list(type.substr(open + 1, type.size() - open - 2));
  return index < arguments.size() ? arguments[index] : std::string();
}

KernelName parse_kernel_name(const char* name) {
  KernelName parsed;
  parsed.text = demangled(name);
  std::string_view rest = parsed.text;
  if (const std::size_t open = begin_of_last(rest, '(', ')'); open != std::string_view::npos) {
    parsed.params = split_list(rest.substr(open + 1, rest.size() - open - 2));
    rest = rest.substr(0, open);
  }
  if (const std::size_t open = begin_of_last(rest, '<', '>'); open != std::string_view::npos) {
    parsed.arguments = split_list(rest.substr(open + 1, rest.size() - open - 2));
    rest = rest.substr(0, open);
  }
  if (rest.starts_with("void ")) rest.remove_prefix(5);
  parsed.function = rest;
  for (std::size_t at = 0; (at = parsed.function.find(anonymous, at)) != std::string::npos;)
    parsed.function.erase(at, anonymous.size());
  return parsed;
}

}  // namespace pooch::interpose

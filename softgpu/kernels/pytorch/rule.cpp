#include "softgpu/kernels/pytorch/rule.h"

#include <algorithm>
#include <charconv>

namespace softgpu::pytorch {
namespace {

constexpr std::uint64_t most_pieces = 65536;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

bool sizes_are(const KernelLaunch& launch, std::initializer_list<std::uint32_t> sizes) {
  return std::equal(sizes.begin(), sizes.end(), launch.param_sizes, launch.param_sizes + launch.param_count);
}

std::uint64_t hash_of(const KernelLaunch& launch, std::uint32_t first, std::uint32_t end,
                      std::uint64_t more) {
  Hash hash(more);
  for (std::uint32_t i = first; i < end; ++i) hash.add_bytes(launch.params[i], launch.param_sizes[i]);
  return hash.value();
}

std::string_view template_name(std::string_view name) {
  return name.substr(0, name.find('<'));
}

std::vector<std::string_view> template_arguments(std::string_view name) {
  std::vector<std::string_view> arguments;
  const std::size_t open = name.find('<');
  if (open == std::string_view::npos) return arguments;
  int depth = 0;
  std::size_t begin = open + 1;
  for (std::size_t at = begin; at < name.size(); ++at) {
    const char c = name[at];
    if (depth == 0 && (c == ',' || c == '>')) {
      arguments.push_back(trimmed(name.substr(begin, at - begin)));
      begin = at + 1;
      if (c == '>') return arguments;
    }
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
  }
  return {};
}

std::uint32_t bytes_of(std::string_view type) {
  for (const std::string_view one : {"unsigned char", "signed char", "char", "bool"})
    if (type == one) return 1;
  for (const std::string_view two : {"c10::Half", "c10::BFloat16", "short"})
    if (type == two) return 2;
  for (const std::string_view four : {"float", "int", "unsigned int"})
    if (type == four) return 4;
  for (const std::string_view eight : {"double", "long", "unsigned long", "unsigned long long"})
    if (type == eight) return 8;
  return 0;
}

std::uint32_t bytes_behind(std::string_view pointer) {
  if (!pointer.ends_with('*')) return 0;
  pointer.remove_suffix(1);
  constexpr std::string_view constant = " const";
  if (pointer.ends_with(constant)) pointer.remove_suffix(constant.size());
  return bytes_of(pointer);
}

std::uint32_t opaque_bytes(std::string_view type) {
  const auto arguments = template_arguments(type);
  if (arguments.size() != 1 || !template_name(type).ends_with("::OpaqueType")) return 0;
  return number(arguments[0]).value_or(0);
}

std::uint32_t bytes_to_compute(std::string_view type) {
  return type == "c10::Half" || type == "c10::BFloat16" ? 4 : bytes_of(type);
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || text.empty()) return std::nullopt;
  return read.ptr == text.data() + text.size() || *read.ptr == 'u' ? std::optional(value) : std::nullopt;
}

bool touch_strided(Footprint& out, std::uint64_t address, std::vector<Dimension> dimensions,
                   std::uint64_t bytes, TouchKind kind) {
  const auto stays = [&](const Dimension& dimension) {
    return dimension.size == 1 || (dimension.stride == 0 && kind == TouchKind::read);
  };
  dimensions.erase(std::remove_if(dimensions.begin(), dimensions.end(), stays), dimensions.end());
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  auto apart = dimensions.begin();  // what lies without gaps is one piece
  for (; apart != dimensions.end() && apart->stride == bytes; ++apart) bytes *= apart->size;
  std::uint64_t pieces = 1, reaches = bytes;
  for (auto each = apart; each != dimensions.end(); ++each) {
    if (each->stride < reaches) return false;
    reaches += (each->size - 1) * each->stride;
    pieces *= each->size;
    if (pieces > most_pieces) return false;
  }
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    std::uint64_t at = address, rest = piece;
    for (auto each = apart; each != dimensions.end(); ++each) {
      at += rest % each->size * each->stride;
      rest /= each->size;
    }
    touch(out, at, bytes, kind);
  }
  return true;
}

}  // namespace softgpu::pytorch

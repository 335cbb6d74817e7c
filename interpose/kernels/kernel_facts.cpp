#include "interpose/kernels/kernel_facts.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/hash.h"
#include "core/per_thread.h"

namespace pooch::interpose {
namespace {

bool fits(const KernelRule& rule, const KernelName& name) {
  const bool prefix = rule.function.ends_with('*');
  const std::string_view function = rule.function.substr(0, rule.function.size() - (prefix ? 1 : 0));
  return (prefix ? name.function.starts_with(function) : name.function == function) &&
         name.text.find(rule.inside) != std::string::npos;
}

// "3ul" is 3; nothing where it is no number.
std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? std::optional(value) : std::nullopt;
}

// Of a number's type, as it is printed; 0: none of these.
std::uint32_t element_bytes(std::string_view type) {
  struct Entry {
    std::string_view name;
    std::uint32_t bytes;
  };
  static constexpr Entry entries[] = {
      {"bool", 1},         {"signed char", 1},    {"unsigned char", 1}, {"short", 2},
      {"c10::Half", 2},    {"c10::BFloat16", 2},  {"int", 4},           {"float", 4},
      {"unsigned int", 4}, {"unsigned short", 2}, {"long", 8},          {"unsigned long", 8},
      {"double", 8},
  };
  const auto* const found =
      std::find_if(std::begin(entries), std::end(entries), [&](const Entry& e) { return e.name == type; });
  return found == std::end(entries) ? 0 : found->bytes;
}

// Addresses that an array holds: 2 of "std::array<char*, 2ul>".
std::optional<std::uint32_t> array_entries(std::string_view type) {
  return type.starts_with("std::array<char*, ") ? number(template_argument(type, 1)) : std::nullopt;
}

// Whether the parameter begins with an address, and whether what lies there is only read.
std::optional<Effect> effect_of(std::string_view type, Effect output) {
  while (type.ends_with("__restrict__") || type.ends_with(' '))
    type.remove_suffix(type.ends_with(' ') ? 1 : std::string_view("__restrict__").size());
  if (type.ends_with('*')) return type.ends_with("const*") ? Effect::read : output;
  // Structs whose first member points to the first element.
  if (type.find("TensorInfo<") == std::string_view::npos &&
      type.find("PackedTensorAccessor") == std::string_view::npos)
    return std::nullopt;
  return template_argument(type, 0).ends_with(" const") ? Effect::read : output;
}

// CUB's structs of nothing but addresses of temporary storage.
bool holds_addresses_alone(std::string_view type) {
  const std::string_view name = type.substr(0, type.find('<'));
  return name.ends_with("cub::ScanTileState") || name.ends_with("cub::ReduceByKeyScanTileState") ||
         name.ends_with("cub::detail::vsmem_t");
}

}  // namespace

// --- parameters

std::span<const std::byte> LaunchParams::at(std::size_t param) const {
  if (param >= layout_.size()) return {};
  const auto [offset, bytes] = layout_[param];
  if (each_ != nullptr) {
    const auto* const from = static_cast<const std::byte*>(each_[param]);
    return {from, from == nullptr ? 0 : bytes};
  }
  if (offset > buffer_bytes_ || buffer_bytes_ - offset < bytes) return {};
  return {buffer_ + offset, bytes};
}

std::uint64_t LaunchParams::word(std::size_t param, std::size_t offset) const {
  return number<std::uint64_t>(param, offset);
}

std::optional<std::uint32_t> LaunchParams::holding(std::int64_t offset, std::size_t bytes) const {
  const auto next = std::upper_bound(
      layout_.begin(), layout_.end(), offset,
      [](std::int64_t at, const ParamLayout& param) { return at < static_cast<std::int64_t>(param.offset); });
  if (next == layout_.begin()) return std::nullopt;
  const auto param = next - 1;
  if (static_cast<std::uint64_t>(offset) + bytes > param->offset + param->bytes) return std::nullopt;
  return static_cast<std::uint32_t>(param - layout_.begin());
}

// --- rules

KernelFacts::KernelFacts(const char* name, std::vector<ParamLayout> layout) : layout_(std::move(layout)) {
  identity_ = layout_.size();
  if (name != nullptr) {
    name_ = parse_kernel_name(name);
    identity_ = mix(identity_, hash(name));
  }
  for (const ParamLayout& param : layout_) identity_ = mix(mix(identity_, param.offset), param.bytes);
  for (const KernelKind& kind : kernel_kinds())
    if (name_.text.find(kind.inside) != std::string::npos) {
      kind_ = kind.kind, mode_ = kind.mode;
      break;
    }
  read_rule();
  if (rule_ != nullptr) return;
  // Of what nobody has read the name may tell which half it belongs to, but not what it is.
  const Direction half = direction(kind_);
  kind_ = half == Direction::forward    ? OpKind::launch_forward
          : half == Direction::backward ? OpKind::launch_backward
                                        : OpKind::bare_launch;
  mode_ = {};
}

OpKind KernelFacts::kind_of_launch(bool foreseen, std::uint64_t elements) const {
  // Clipping of gradients clamps its coefficient, which is no layer of a network.
  if (kind_ == OpKind::activation_forward && elements == 1) return OpKind::elementwise;
  if (!foreseen) return kind_;
  // Of what a rule knows, forward launches alone are worth making again.
  if (rule_ != nullptr) return kind_ == OpKind::launch_forward ? OpKind::kernel_forward : kind_;
  return kind_ == OpKind::bare_launch       ? OpKind::kernel
         : kind_ == OpKind::launch_forward  ? OpKind::kernel_forward
         : kind_ == OpKind::launch_backward ? OpKind::kernel_backward
                                            : kind_;
}

KernelFacts KernelFacts::with_code(std::shared_ptr<const KernelCode> code) const {
  KernelFacts known = *this;
  known.code_ = std::move(code);
  return known;
}

void KernelFacts::read_rule() {
  const auto rules = kernel_rules();
  const auto found =
      std::find_if(rules.begin(), rules.end(), [&](const KernelRule& rule) { return fits(rule, name_); });
  // Without a layout, or with another than the name promises, nothing fits together.
  if (found != rules.end() && layout_.size() == name_.params.size() && !layout_.empty()) {
    rule_ = &*found;
    form_ = rule_->form;
  }
  switch (form_) {
    case KernelForm::signature:
      return read_signature();
    case KernelForm::tensor_iterator:
      return read_tensor_iterator();
    case KernelForm::tensor_list:
      return read_lists();
    case KernelForm::fields:
      return read_fields();
    case KernelForm::concatenation:
      if (layout_.size() < 2) rule_ = nullptr, form_ = KernelForm::unknown;
      return;
    case KernelForm::offset_lambda:
    case KernelForm::reduction:
      if (kind_ == OpKind::bare_launch && form_ == KernelForm::offset_lambda) kind_ = OpKind::elementwise;
      return;
    case KernelForm::unknown:
      rule_ = nullptr;
      return;
  }
}

void KernelFacts::read_signature() {
  const Effect output = rule_->fills_outputs ? Effect::write : Effect::read_write;
  for (std::uint32_t i = 0; i < layout_.size(); ++i) {
    const auto effect = effect_of(name_.params[i], output);
    if (effect)
      slots_.push_back({i, 0, *effect});
    else if (name_.params[i].ends_with("at::native::TensorListAddresses"))
      by_block_ = Slot{i, 0, output};
    else if (holds_addresses_alone(name_.params[i]))
      for (std::uint32_t at = 0; at + 8 <= layout_[i].bytes; at += 8)
        slots_.push_back({i, at, Effect::read_write});
    else if (element_bytes(name_.params[i]) == 0)
      scanned_.push_back(i);
  }
}

// Parameters behind the array are calculators, loaders and storers, which hold no addresses; the functor may.
void KernelFacts::read_tensor_iterator() {
  constexpr std::uint32_t functor = 1, array = 2;
  const auto entries = layout_.size() > array ? array_entries(name_.params[array]) : std::nullopt;
  const bool several = name_.function.ends_with("multi_outputs");
  const std::string_view first = name_.arguments.empty() ? std::string_view() : name_.arguments.front();
  const std::uint32_t outputs = several ? number(first).value_or(0) : 1;
  if (!entries || layout_[array].bytes != *entries * sizeof(std::uint64_t) || outputs == 0) {
    rule_ = nullptr, form_ = KernelForm::unknown;
    return;
  }
  for (std::uint32_t i = 0; i < *entries; ++i)
    slots_.push_back({array, i * 8, i < outputs ? Effect::write : Effect::read});
  scanned_.push_back(functor);
  if (kind_ == OpKind::bare_launch) kind_ = OpKind::elementwise;
  // Only here the elements of the output lie one behind the other, in the functor's own type.
  if (name_.function != "at::native::vectorized_elementwise_kernel") return;
  for (const FunctorResult& result : functor_results())
    if (name_.params[functor].starts_with(result.functor))
      result_element_ = element_bytes(template_argument(name_.params[functor], result.argument));
}

// MultiTensorApply.cuh. How much there is room for, by the number of lists.
struct KernelFacts::ListRoom {
  std::uint32_t plain[5], with_scalars[5];
  std::uint32_t blocks, number_bytes;
};

// addresses[n][max], numel[max], scalars or addresses of steps, block_to_tensor[blocks],
// block_to_chunk[blocks]
bool KernelFacts::fits_lists(const ListRoom& room) {
  constexpr std::uint32_t word = 8;
  const std::string_view type = name_.params[0];
  const bool fused = type.find("FusedOptimizerTensorListMetadata<") != std::string_view::npos;
  const bool scalars = type.find("TensorListScalarListMetadata<") != std::string_view::npos;
  const auto count = number(template_argument(type, scalars ? 1 : 0)).value_or(0);
  if (count < 1 || count > std::size(room.plain)) return false;
  Lists lists;
  lists.count = count;
  lists.entries = scalars ? room.with_scalars[count - 1] : room.plain[count - 1];
  lists.blocks = room.blocks;
  lists.number_bytes = room.number_bytes;
  lists.block_to_tensor = (count + 1) * lists.entries * word;
  if (fused) {
    lists.step_addresses = lists.block_to_tensor;
    lists.block_to_tensor += room.with_scalars[count - 1] * word;
  } else if (scalars) {
    lists.block_to_tensor += element_bytes(template_argument(type, 0)) * lists.entries;
  }
  const std::uint32_t end = lists.block_to_tensor + room.blocks * (room.number_bytes + 4) + (scalars ? 0 : 4);
  if ((end + word - 1) / word * word != layout_[0].bytes) return false;
  lists_ = lists;
  return true;
}

void KernelFacts::read_lists() {
  static constexpr ListRoom rooms[] = {
      {{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, 320, 1},           // parameters of 4 KiB: PyTorch 2.11
      {{770, 448, 336, 252, 210}, {672, 448, 336, 252, 210}, 2240, 2}  // of 32 KiB: 2.15, built by CUDA 13
  };
  if (std::none_of(std::begin(rooms), std::end(rooms),
                   [&](const ListRoom& room) { return fits_lists(room); })) {
    rule_ = nullptr, form_ = KernelForm::unknown;
    return;
  }
  read_behind_lists();
  lists_.result = result_list();
}

// The functor, which may hold addresses, and what it is called with.
void KernelFacts::read_behind_lists() {
  for (std::uint32_t i = 1; i < layout_.size(); ++i)
    if (const auto effect = effect_of(name_.params[i], rule_->pointers))
      slots_.push_back({i, 0, *effect});
    else
      scanned_.push_back(i);
}

// Functor<T, depth, arguments, result>, the fused optimisers' aside.
int KernelFacts::result_list() const {
  static constexpr std::string_view with_result[] = {"UnaryOpFunctor<", "BinaryOp", "PointwiseOpScalar",
                                                     "TernaryOp",       "Zero",     "CopyFunctor<"};
  std::string_view functor = name_.params.size() > 1 ? std::string_view(name_.params[1]) : "";
  if (const auto at = functor.find('<'); at != std::string_view::npos)
    if (const auto from = functor.rfind("::", at); from != std::string_view::npos)
      functor.remove_prefix(from + 2);
  if (functor.starts_with("LpNormFunctor<") || functor.starts_with("LpMaxFunctor<"))
    return static_cast<int>(lists_.count);  // ForeachReduceOp.cu: these only read
  if (std::none_of(std::begin(with_result), std::end(with_result),
                   [&](std::string_view known) { return functor.starts_with(known); }))
    return -1;
  const bool copy = functor.starts_with("CopyFunctor<");
  const auto result = number(template_argument(functor, copy ? 4 : 3));
  return result && *result < lists_.count ? static_cast<int>(*result) : -1;
}

void KernelFacts::read_fields() {
  const auto structs = kernel_structs();
  const auto found = std::find_if(structs.begin(), structs.end(), [&](const KernelStruct& one) {
    return one.function == rule_->function && one.bytes == layout_[0].bytes;
  });
  if (found == structs.end() || layout_.size() != 1) {
    rule_ = nullptr, form_ = KernelForm::unknown;
    return;
  }
  for (const KernelField& field : found->fields) slots_.push_back({0, field.offset, field.effect});
  captured_ = found->captured;
}

// --- launches

struct KernelFacts::Search {
  const LaunchParams& params;
  const LaunchGrid& grid;
  FunctionRef<Memory(std::uint64_t)>& find;
  std::vector<LaunchWord>& words;

  void add(std::uint32_t param, std::uint32_t offset, Effect effect, std::uint64_t bytes = 0) {
    const std::uint64_t address = params.word(param, offset);
    if (const Memory in = find(address); in.bytes != 0)
      words.push_back({param, offset, address, effect, bytes, true, in});
  }
  // Every word of the parameter's bytes from `begin` on.
  void scan(std::uint32_t param, std::uint32_t begin = 0, bool known = false) {
    const auto bytes = params.at(param);
    for (std::uint32_t at = begin; at + sizeof(std::uint64_t) <= bytes.size(); at += sizeof(std::uint64_t))
      if (const Memory in = find(params.word(param, at)); in.bytes != 0)
        words.push_back({param, at, params.word(param, at), Effect::read_write, 0, known, in});
  }
};

std::uint64_t KernelFacts::find_words(const LaunchParams& params, const LaunchGrid& grid,
                                      FunctionRef<Memory(std::uint64_t)> find,
                                      std::vector<LaunchWord>& words) const {
  Search search{params, grid, find, words};
  const std::size_t before = words.size();
  const std::uint64_t count = form_ == KernelForm::tensor_iterator || form_ == KernelForm::offset_lambda
                                  ? params.number<std::uint32_t>(0, 0)
                                  : 0;
  if (find_by_rule(search, count)) {
    const bool known = std::all_of(words.begin() + static_cast<std::ptrdiff_t>(before), words.end(),
                                   [](const LaunchWord& word) { return word.known; });
    if (known || !foreseen_by_code()) return count;
    words.resize(before);
  }
  if (foreseen_by_code())
    find_by_code(search);
  else
    scan_all(search);
  return 0;
}

bool KernelFacts::find_by_rule(Search& search, std::uint64_t count) const {
  const LaunchParams& params = search.params;
  bool understood = rule_ != nullptr && params.count() == layout_.size();
  if (form_ == KernelForm::offset_lambda) understood = understood && find_in_lambda(search);
  if (form_ == KernelForm::tensor_list) understood = understood && find_in_lists(search);
  if (form_ == KernelForm::concatenation) understood = understood && find_in_concatenation(search);
  if (form_ == KernelForm::fields) understood = understood && params.number<std::uint8_t>(0, captured_) == 0;
  if (form_ == KernelForm::reduction) understood = understood && find_in_reduction(search);
  if (!understood) return false;
  for (const Slot& slot : slots_) {
    const bool sized = &slot == slots_.data() && result_element_ != 0 && count != 0;
    search.add(slot.param, slot.offset, sized ? Effect::overwrite : slot.effect,
               sized ? count * result_element_ : 0);
  }
  if (by_block_)
    for (std::uint32_t block = 0;
         block < search.grid.blocks[0] && block < layout_[by_block_->param].bytes / 8; ++block)
      search.add(by_block_->param, 8 * block, by_block_->effect);
  for (const std::uint32_t param : scanned_) search.scan(param, 0, rule_->captures_addresses);
  return true;
}

// The code says which words become addresses, not how far from there it goes, nor in which direction.
void KernelFacts::find_by_code(Search& search) const {
  const LaunchParams& params = search.params;
  const auto read = [&](std::int64_t offset, unsigned bytes) -> std::uint64_t {
    const auto param = params.holding(offset, bytes);
    if (!param) return 0;
    std::uint64_t value = 0;
    const auto from = params.at(*param);
    const std::size_t at = static_cast<std::size_t>(offset) - params.offset_of(*param);
    if (at + bytes <= from.size()) std::memcpy(&value, from.data() + at, bytes);
    return value;
  };
  auto& touched = per_thread<std::vector<TouchedWord>>();
  code_->touched(search.grid, params.packed_bytes(), read, touched);
  for (const TouchedWord& word : touched) {
    const auto param = params.holding(word.offset, sizeof(std::uint64_t));
    if (!param) continue;  // two numbers of four bytes
    const std::size_t before = search.words.size();
    search.add(*param, word.offset - params.offset_of(*param), word.effect);
    if (search.words.size() > before) search.words.back().whole = true;
  }
}

// What the code never reads was left there by somebody else.
void KernelFacts::scan_all(Search& search) const {
  const std::size_t before = search.words.size();
  for (std::uint32_t i = 0; i < search.params.count(); ++i) search.scan(i);
  if (code_ == nullptr) return;
  search.words.erase(
      std::remove_if(search.words.begin() + static_cast<std::ptrdiff_t>(before), search.words.end(),
                     [&](const LaunchWord& word) {
                       return !code_->reads(search.params.offset_of(word.param) + word.offset);
                     }),
      search.words.end());
}

// The lambda's members: a calculator of 304 + 100 n bytes, n addresses, the functor. Of all n that fit the
// largest is right, since no functor is as large as what one more would need.
bool KernelFacts::find_in_lambda(Search& search) const {
  constexpr std::uint32_t lambda = 1, most = 8;
  const auto data_of = [](std::uint32_t n) { return (304 + 100 * n + 7) / 8 * 8; };
  const std::size_t bytes = search.params.at(lambda).size();
  std::uint32_t n = 0;
  while (n < most && data_of(n + 1) + 8 * (n + 1) <= bytes) ++n;
  if (n == 0) return false;
  for (std::uint32_t i = 0; i < n; ++i)
    if (search.find(search.params.word(lambda, data_of(n) + 8 * i)).bytes == 0) return false;
  for (std::uint32_t i = 0; i < n; ++i)
    search.add(lambda, data_of(n) + 8 * i, i == 0 ? Effect::write : Effect::read);
  search.scan(lambda, data_of(n) + 8 * n);
  return true;
}

bool KernelFacts::find_in_lists(Search& search) const {
  const unsigned blocks = search.grid.blocks[0];
  if (blocks == 0 || blocks > lists_.blocks || search.params.at(0).empty()) return false;
  std::uint32_t used = 0;
  for (unsigned block = 0; block < blocks; ++block) {
    const std::size_t at = lists_.block_to_tensor + block * lists_.number_bytes;
    const std::uint32_t tensor = lists_.number_bytes == 1 ? search.params.number<std::uint8_t>(0, at)
                                                          : search.params.number<std::uint16_t>(0, at);
    used = std::max(used, tensor + 1);
  }
  if (used > lists_.entries) return false;
  for (std::uint32_t list = 0; list < lists_.count; ++list) {
    const bool read = lists_.result >= 0 && static_cast<std::uint32_t>(lists_.result) != list;
    for (std::uint32_t i = 0; i < used; ++i)
      search.add(0, (list * lists_.entries + i) * 8, read ? Effect::read : Effect::read_write);
  }
  if (lists_.step_addresses != 0)
    for (std::uint32_t i = 0; i < used; ++i) search.add(0, lists_.step_addresses + i * 8, Effect::read_write);
  return true;
}

// Inputs come first in their struct; its third template argument is for how many there is room.
bool KernelFacts::find_in_concatenation(Search& search) const {
  constexpr std::uint32_t output = 0, inputs = 1;
  const std::uint32_t room = number(template_argument(name_.params[inputs], 2)).value_or(0);
  const unsigned rows = search.grid.blocks[1];
  if (rows > room || search.params.at(inputs).size() < std::size_t{8} * room) return false;
  search.add(output, 0, Effect::write);
  for (unsigned row = 0; row < rows; ++row) search.add(inputs, 8 * row, Effect::read);
  return true;
}

// The last members of ReduceOp, from its end: 16 bytes of numbers and flags, then backwards the addresses.
bool KernelFacts::find_in_reduction(Search& search) const {
  constexpr std::uint32_t tail = 16, addresses = 6;
  const auto bytes = static_cast<std::uint32_t>(search.params.at(0).size());
  // Complex doubles are aligned to 16 bytes, so that what is behind the last member is not known.
  if (layout_.size() != 1 || bytes < tail + addresses * 8 || bytes % 8 != 0 ||
      name_.text.find("complex<double>") != std::string::npos)
    return false;
  const std::uint32_t source = bytes - tail - addresses * 8, outputs = source + 8;
  const bool accumulates = search.params.number<std::uint8_t>(0, bytes - 8) != 0;
  const auto filled = search.params.number<std::int32_t>(0, bytes - 4);
  search.add(0, source, Effect::read);
  for (std::uint32_t i = 0; i < 2; ++i)
    if (static_cast<std::int32_t>(i) < filled)
      search.add(0, outputs + i * 8, accumulates ? Effect::read_write : Effect::write);
  for (std::uint32_t i = 2; i < addresses - 1; ++i) search.add(0, outputs + i * 8, Effect::read_write);
  return true;
}

}  // namespace pooch::interpose

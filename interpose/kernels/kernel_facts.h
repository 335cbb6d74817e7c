// What one launch of a kernel works on: its parameters' layout, the rule for its name (kernels/rules.h), and
// what its machine code says (core/kernel_code.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/effect.h"
#include "core/function_ref.h"
#include "core/kernel_code.h"
#include "interpose/kernels/kernel_name.h"
#include "interpose/kernels/rules.h"

namespace pooch::interpose {

struct ParamLayout {
  std::size_t offset, bytes;
};

// Where each parameter of a launch lies in host memory: one by one, or all in one buffer.
class LaunchParams {
 public:
  LaunchParams(void* const* each, std::span<const ParamLayout> layout) : each_(each), layout_(layout) {}
  LaunchParams(const std::byte* buffer, std::size_t bytes, std::span<const ParamLayout> layout)
      : buffer_(buffer), buffer_bytes_(bytes), layout_(layout) {}

  std::size_t count() const { return layout_.size(); }
  // The parameter's bytes; empty where the launch does not have them.
  std::span<const std::byte> at(std::size_t param) const;
  // The word at `offset`; 0 behind the end.
  std::uint64_t word(std::size_t param, std::size_t offset) const;
  // The parameter in which all of these bytes lie, counted as the kernel has them; nothing where they do not
  // lie in one.
  std::optional<std::uint32_t> holding(std::int64_t offset, std::size_t bytes) const;
  std::uint32_t offset_of(std::uint32_t param) const {
    return static_cast<std::uint32_t>(layout_[param].offset);
  }
  // As the kernel has them.
  std::uint32_t packed_bytes() const {
    return layout_.empty() ? 0 : static_cast<std::uint32_t>(layout_.back().offset + layout_.back().bytes);
  }
  template <class T>
  T number(std::size_t param, std::size_t offset) const {
    const auto bytes = at(param);
    T value{};
    if (offset + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }

 private:
  void* const* each_ = nullptr;
  const std::byte* buffer_ = nullptr;
  std::size_t buffer_bytes_ = 0;
  std::span<const ParamLayout> layout_;
};

// The allocation that an address lies in; no bytes: in none.
struct Memory {
  std::uint64_t base = 0, bytes = 0;
};

// An address among the parameters.
struct LaunchWord {
  std::uint32_t param, offset;  // bytes into the parameter
  std::uint64_t address;
  Effect effect;
  std::uint64_t bytes;  // from the address on; 0: nobody knows
  bool known;           // a rule or the code says what it is; otherwise it may be no address at all
  Memory in;
  bool whole = false;  // what lies before the address may be touched as well
};

// Immutable once made; by kernel.
class KernelFacts {
 public:
  // `name` as the driver gives it; nullptr: not known.
  KernelFacts(const char* name, std::vector<ParamLayout> layout);

  std::span<const ParamLayout> layout() const { return layout_; }
  std::size_t packed_bytes() const {
    return layout_.empty() ? 0 : layout_.back().offset + layout_.back().bytes;
  }
  // Equal for the same kernel in every process.
  std::uint64_t identity() const { return identity_; }
  const std::string& name() const { return name_.text; }
  // By name alone.
  OpKind kind() const { return kind_; }
  // Of one launch. `foreseen`: all its words are known. `elements`: what find_words() returned.
  OpKind kind_of_launch(bool foreseen, std::uint64_t elements) const;
  std::string_view mode() const { return mode_; }
  const KernelRule* rule() const { return rule_; }

  // The same kernel, with what its machine code says.
  KernelFacts with_code(std::shared_ptr<const KernelCode> code) const;
  const KernelCode* code() const { return code_.get(); }
  bool foreseen_by_code() const { return code_ != nullptr && code_->foreseen(); }
  // A launch whose words are all known touches nothing else; only then may it be made again, if at all.
  bool foreseen() const { return rule_ != nullptr || foreseen_by_code(); }
  bool repeatable() const { return foreseen_by_code() ? code_->repeatable() : rule_ != nullptr; }

  // Appends the words that are addresses in memory that `find` knows: by the rule, or by the code where the
  // rule does not understand all of the launch. Returns a hash of the sizes that the rule finds among the
  // scalars.
  std::uint64_t find_words(const LaunchParams& params, const LaunchGrid& grid,
                           FunctionRef<Memory(std::uint64_t address)> find,
                           std::vector<LaunchWord>& words) const;

 private:
  struct Search;
  struct ListRoom;
  // Lists of tensors by value (PyTorch's MultiTensorApply.cuh).
  struct Lists {
    std::uint32_t count = 0, entries = 0;  // lists, and places in each
    std::uint32_t blocks = 0;              // for how many there is room
    std::uint32_t block_to_tensor = 0;     // offset of a number per block
    std::uint32_t number_bytes = 1;        // of such a number
    std::uint32_t step_addresses = 0;      // offset of one more list, of addresses to steps; 0: none
    int result = -1;                       // the only list that is written; `count`: none is; -1: each may be
  };

  void read_rule();
  void read_signature();
  void read_tensor_iterator();
  void read_lists();
  bool fits_lists(const ListRoom& room);
  void read_behind_lists();
  int result_list() const;
  void read_fields();
  bool find_by_rule(Search& search, std::uint64_t count) const;
  void find_by_code(Search& search) const;
  void scan_all(Search& search) const;
  bool find_in_lambda(Search& search) const;
  bool find_in_lists(Search& search) const;
  bool find_in_reduction(Search& search) const;
  bool find_in_concatenation(Search& search) const;

  KernelName name_;
  std::vector<ParamLayout> layout_;
  std::uint64_t identity_ = 0;
  OpKind kind_ = OpKind::bare_launch;
  std::string_view mode_;
  const KernelRule* rule_ = nullptr;
  std::shared_ptr<const KernelCode> code_;
  KernelForm form_ = KernelForm::unknown;
  // By parameter, for pointers and arrays of them.
  struct Slot {
    std::uint32_t param, offset;
    Effect effect;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> scanned_;  // parameters that no rule understands
  std::optional<Slot> by_block_;        // an array of addresses, one for each block
  std::uint32_t result_element_ = 0;    // bytes of an element of the first output; 0: not known
  Lists lists_;
  std::uint32_t captured_ = 0;  // offset of a flag in the first parameter: see KernelStruct
};

}  // namespace pooch::interpose

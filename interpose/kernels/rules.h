// What is known of kernels that programs bring themselves, by their demangled names. A rule is used for what
// it says of the parameters; whether a map may be made again by such a kernel is for digests to prove, map by
// map (docs/decisions/0012-digests-on-the-device.md, 0015-rules-for-bare-kernels.md).
//
// A rule is added for a kernel whose source was read, never for one that merely looks alike: where an input
// is taken for read although it is written, an eviction loses what was written.
#pragma once

#include <span>
#include <string_view>

#include "core/call.h"

namespace pooch::interpose {

// Where a kernel's parameters hold the addresses that it works on.
enum class KernelForm : std::uint8_t {
  unknown,          // anywhere, and each may be read and written: the rule takes kernels out of a later one
  signature,        // pointers: to const they are inputs
  tensor_iterator,  // (int count, functor, array of addresses, …), outputs first
  offset_lambda,    // (int count, {offset calculator, array of addresses, functor}), outputs first
  tensor_list,      // (lists of tensors by value, functor, …)
  reduction,        // (one struct with input, outputs and buffers)
  concatenation,  // (output, one struct that begins with a list of inputs, …), an input per row of the grid
  fields,         // (one struct, its addresses where kernel_structs() says)
};

struct KernelRule {
  std::string_view function;  // qualified, without anonymous namespaces; "at::native::*": all that begins so
  std::string_view inside;    // must occur in the demangled name; empty: any
  KernelForm form;
  bool fills_outputs;  // outputs are written and not read; otherwise they may be both
  std::string_view evidence;
  bool captures_addresses = false;       // what else is an address is one: the functor's, read and written
  Effect pointers = Effect::read_write;  // what a functor on lists is called with, where it is no const
};

// An address in a kernel's only parameter.
struct KernelField {
  std::uint32_t offset;  // bytes
  Effect effect;
};

// The struct that the kernels of a rule get by value; versions are told by size. What is in none of the
// fields is no address.
struct KernelStruct {
  std::string_view function;  // the rule's
  std::uint32_t bytes;
  std::uint32_t captured;  // offset of a bool: its random numbers come from memory that no field names
  std::span<const KernelField> fields;
};

// What an op is, by a part of its demangled name.
struct KernelKind {
  std::string_view inside;
  OpKind kind;
  std::string_view mode;
};

std::span<const KernelRule> kernel_rules();  // the first that fits counts
std::span<const KernelStruct> kernel_structs();
std::span<const KernelKind> kernel_kinds();  // likewise

// Functors of TensorIterator whose result has the type of this template argument.
struct FunctorResult {
  std::string_view functor;
  std::size_t argument;
};
std::span<const FunctorResult> functor_results();

}  // namespace pooch::interpose

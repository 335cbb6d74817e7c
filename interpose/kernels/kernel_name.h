// What a kernel's name says of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pooch::interpose {

// "void at::native::reduce_kernel<512, 1, Op>(Op)" in its parts. Anonymous namespaces are left out of
// `function`.
struct KernelName {
  std::string text;                    // as people read it; the name itself where it is not mangled
  std::string function;                // "at::native::reduce_kernel"
  std::vector<std::string> arguments;  // of the template: "512", "1", "Op"
  std::vector<std::string> params;     // types; none where the name is not mangled
};

KernelName parse_kernel_name(const char* name);

// The parts of a list, at its commas outside of all brackets.
std::vector<std::string> split_list(std::string_view list);
// "int" of "Functor<int, float>" at 0; empty where there are not as many.
std::string template_argument(std::string_view type, std::size_t index);

}  // namespace pooch::interpose

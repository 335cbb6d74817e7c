// How much there is behind a mangled name (Itanium C++ ABI, 5.1), before anybody spells it out: the C++
// library's own demangler recurses as deep as a name nests, and a name of 100 letters can stand for more text
// than there is memory, since it may refer to its own parts twice and twice again.
#pragma once

#include <string_view>

namespace pooch::interpose {

// Whether it is understood as a whole, no deeper than a compiler's names are, and no longer when spelled out
// than somebody would read. What kernels are not called (expressions, decltype, conversions) is not
// understood.
bool can_be_demangled(std::string_view name);

}  // namespace pooch::interpose

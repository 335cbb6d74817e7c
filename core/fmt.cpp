// What fmt does not inline, compiled once, as fmt's own format.cc has it. Inside the user's process
// dependencies are static and hidden, and Debian's libfmt is shared only; as headers alone every file would
// compile the formatting of numbers again, which takes longer than the rest of most files.
#include <fmt/format-inl.h>

template auto fmt::detail::dragonbox::to_decimal(float) noexcept -> fmt::detail::dragonbox::decimal_fp<float>;
template auto fmt::detail::dragonbox::to_decimal(double) noexcept
    -> fmt::detail::dragonbox::decimal_fp<double>;
template auto fmt::detail::thousands_sep_impl(locale_ref) -> fmt::detail::thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl(locale_ref) -> char;
template void fmt::detail::buffer<char>::append(const char*, const char*);

// From addresses in a program's files to its source lines, by the addr2line of binutils or LLVM.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pooch::tools {

struct SourceLine {
  std::string function;  // "train::Convolution::forward", without parameters
  std::string place;     // "/home/me/train/convolution.cpp:52"; empty: not known
};

class SourceLines {
 public:
  // A call in an ELF file. `offset` is a virtual address of the file.
  struct Address {
    std::string file, build_id;  // build_id: hexadecimal, may be empty
    std::uint64_t offset;
    auto operator<=>(const Address&) const = default;
  };

  // Looks all of them up at once: one process per file.
  explicit SourceLines(const std::vector<Address>& addresses);

  // Innermost first, more than one where functions are inlined; never empty: "file+0x1234" at worst.
  std::vector<SourceLine> at(const Address& address) const;
  // Why some could not be looked up, one line each.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void look_up(const std::string& file, const std::string& build_id,
               const std::vector<std::uint64_t>& offsets);

  std::map<Address, std::vector<SourceLine>> known_;
  std::vector<std::string> problems_;
};

// What addr2line -a -f -C -i prints, by address.
std::map<std::uint64_t, std::vector<SourceLine>> parse_source_lines(const std::string& text);
// Of an ELF file of this machine's word size, in hexadecimal; empty: none, or no such file.
std::string build_id_of_file(const std::string& file);

}  // namespace pooch::tools

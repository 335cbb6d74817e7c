// The child's environment, as a value.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace pooch::tools {

class Environment {
 public:
  // A copy of this process's.
  static Environment current();

  const std::string* find(const std::string& name) const;
  void set(const std::string& name, const std::string& value) { variables_[name] = value; }
  // Puts `entry` first in a list that colons separate.
  void put_first(const std::string& name, const std::string& entry);
  // ... last.
  void put_last(const std::string& name, const std::string& entry);
  // Puts `library` into LD_PRELOAD, before what is there but behind sanitizer runtimes, which must be first.
  void preload(const std::string& library);

  // "NAME=value" each.
  std::vector<std::string> entries() const;

 private:
  std::map<std::string, std::string> variables_;
};

}  // namespace pooch::tools

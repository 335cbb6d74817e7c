// libcuda as a test needs it: opened at run time, so that LD_LIBRARY_PATH chooses between software and
// silicon.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <string>

namespace pooch::test {

class Driver {
 public:
  // Device 0 with its primary context current. `failure` says why there is none.
  static Driver& instance() {
    static Driver driver;
    return driver;
  }
  const std::string& failure() const { return failure_; }
  // Is this the software GPU? Its libcuda lies beside the other software libraries.
  bool software() const { return software_; }

  template <class Function>
  Function* function(const char* name, Function*) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

 private:
  Driver();
  void* library_ = nullptr;
  bool software_ = false;
  std::string failure_;
};

// driver_function(cuInit): the driver's own function by its name in cuda.h (which may be a macro for a _v2);
// driver_call(cuInit, 0) calls it.
#define POOCH_NAME_OF(name) #name
#define driver_function(name) \
  (::pooch::test::Driver::instance().function(POOCH_NAME_OF(name), static_cast<decltype(&name)>(nullptr)))
#define driver_call(name, ...) (driver_function(name)(__VA_ARGS__))

}  // namespace pooch::test

#include "tests/support/driver.h"

#include <link.h>

namespace pooch::test {

Driver::Driver() {
  library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library_ == nullptr) {
    failure_ = dlerror();
    return;
  }
  link_map* map = nullptr;
  dlinfo(library_, RTLD_DI_LINKMAP, &map);
  software_ = std::string(map->l_name).find("softgpu") != std::string::npos;
  const auto check = [this](const char* what, CUresult result) {
    if (result != CUDA_SUCCESS && failure_.empty())
      failure_ = std::string(what) + ": " + std::to_string(result);
    return result == CUDA_SUCCESS;
  };
  CUcontext context = nullptr;
  if (check("cuInit", function("cuInit", &cuInit)(0)) &&
      check("cuDevicePrimaryCtxRetain",
            function("cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain)(&context, 0)))
    check("cuCtxSetCurrent", function("cuCtxSetCurrent", &cuCtxSetCurrent)(context));
}

}  // namespace pooch::test

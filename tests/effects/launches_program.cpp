// Launches kernels of a cubin, for tests/effects/launches.py.
//
// usage: launches_program CUBIN scale|lists|gather ITERATIONS MILLISECONDS
//
// An iteration works on each of twelve buffers of 4 MiB and takes at least so long.
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/preload/ok.h"

namespace {

constexpr int buffers = 12;
constexpr std::size_t bytes = std::size_t{4} << 20;

struct Scale {
  int n;
  float by;
  CUdeviceptr to, from;
};
struct Lists {
  CUdeviceptr to[16], from[16];
  unsigned char of_block[64];
  int n;
};

// The image lies in memory that is soon another's.
CUmodule load(const char* file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> image((std::istreambuf_iterator<char>(in)), {});
  CUmodule module = nullptr;
  OK(cuModuleLoadData(&module, image.data()));
  std::fill(image.begin(), image.end(), '\xff');
  return module;
}

void launch(CUfunction kernel, unsigned blocks, void* params) {
  void* all[] = {params};
  OK(cuLaunchKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, nullptr, all, nullptr));
}

}  // namespace

int main(int, char** arguments) {
  const std::string what = arguments[2];
  CUdevice device = 0;
  CUcontext context = nullptr;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  const CUmodule module = load(arguments[1]);
  CUfunction kernel = nullptr;
  OK(cuModuleGetFunction(&kernel, module, what == "lists" ? "add_lists" : what.c_str()));
  std::vector<CUdeviceptr> all(buffers);
  for (CUdeviceptr& one : all) {
    OK(cuMemAlloc(&one, bytes));
    OK(cuMemsetD8(one, 0, bytes));
  }
  for (int iteration = 0; iteration < std::atoi(arguments[3]); ++iteration) {
    for (int i = 0; i < buffers; ++i) {
      const CUdeviceptr to = all[static_cast<std::size_t>(i)],
                        from = all[static_cast<std::size_t>((i + 1) % buffers)];
      if (what == "scale") {
        Scale with{static_cast<int>(bytes / 4), 2, to, from};
        launch(kernel, bytes / 1024, &with);
      } else if (what == "lists") {
        // What the stack held before differs from call to call.
        Lists lists;
        for (int k = 0; k < 16; ++k)
          lists.to[k] = lists.from[k] = all[static_cast<std::size_t>((iteration * 7 + i + k) % buffers)];
        lists.to[0] = to, lists.from[0] = from;
        lists.to[1] = from, lists.from[1] = to;
        for (unsigned char& one : lists.of_block) one = 15;
        lists.of_block[0] = lists.of_block[1] = 0, lists.of_block[2] = 1;
        lists.n = bytes / 4;
        launch(kernel, 3, &lists);
      } else {
        CUdeviceptr table = to, result = from;
        int n = 8;
        void* params[] = {&table, &result, &n};
        OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
      }
    }
    OK(cuCtxSynchronize());
    usleep(static_cast<useconds_t>(1000 * std::atoi(arguments[4])));
  }
}
